package web

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Identity is the identity provider by which operators log in. The errors are those of
// [Sessions].
type Identity interface {
	// Begin returns the URL at the provider to which the browser goes, and a text that
	// the browser must keep until it comes back. from is the address of the client, for
	// the limit of tries.
	Begin(ctx context.Context, from netip.Addr) (to, attempt string, err error)
	// Finish makes a session from the parameters with which the browser came back.
	Finish(ctx context.Context, attempt string, query url.Values, from netip.Addr) (token string, s Session, err error)
}

const (
	// attemptCookie has the attempt and, after a |, the escaped path of the page to go to
	// afterwards.
	attemptCookie = "login"
	// attemptTime is how long a person may take at the provider.
	attemptTime = 10 * time.Minute
)

// identityRoutes lists the pages of the login with an identity provider.
func (h *Handler) identityRoutes() []route {
	if h.Identity == nil {
		return nil
	}
	return []route{
		{pattern: "GET /login/oidc", handle: beginIdentity},
		{pattern: "GET /login/oidc/callback", handle: finishIdentity},
	}
}

// beginIdentity sends the browser to the provider.
func beginIdentity(v *visit) error {
	if err := v.secure(); err != nil {
		return err
	}
	to, attempt, err := v.h.Identity.Begin(v.ctx, v.remote())
	if err != nil {
		return v.refuseLogin(err, loginPage{Next: v.next(), Refused: true})
	}
	v.setCookie(attemptCookie, attempt+"|"+url.QueryEscape(v.next()), attemptTime)
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// finishIdentity makes a session for the person whom the provider sends back.
func finishIdentity(v *visit) error {
	if err := v.secure(); err != nil {
		return err
	}
	attempt, next, _ := strings.Cut(v.cookie(attemptCookie), "|")
	v.setCookie(attemptCookie, "", 0)
	next, _ = url.QueryUnescape(next) // empty if it cannot be read
	next = pageOr(operators.base(), next)
	token, s, err := v.h.Identity.Finish(v.ctx, attempt, v.r.URL.Query(), v.remote())
	if err != nil {
		return v.refuseLogin(err, loginPage{Next: next, Refused: true})
	}
	v.setSession(operators, token, s)
	return v.redirect(next)
}
