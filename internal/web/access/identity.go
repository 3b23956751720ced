package access

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/web/page"
)

// Identity is the identity provider by which operators log in. The errors are those of
// [page.Sessions].
type Identity interface {
	// Begin returns the URL at the provider to which the browser goes, and a text that
	// the browser must keep until it comes back. from is the address of the client, for
	// the limit of tries.
	Begin(ctx context.Context, from netip.Addr) (to, attempt string, err error)
	// Finish makes a session from the parameters with which the browser came back.
	Finish(ctx context.Context, attempt string, query url.Values, from netip.Addr) (token string, s postrider.Session, err error)
}

const (
	// attemptCookie has the attempt and, after a |, the escaped path of the page to go to
	// afterwards.
	attemptCookie = "login"
	// attemptTime is how long a person may take at the provider.
	attemptTime = 10 * time.Minute
)

// begin sends the browser to the provider.
func (l logins) begin(v *page.Visit) error {
	to, attempt, err := l.identity.Begin(v.Context, v.Remote())
	if err != nil {
		return l.refuse(v, err, loginPage{Next: next(v), Refused: true})
	}
	v.SetCookie(attemptCookie, attempt+"|"+url.QueryEscape(next(v)), attemptTime)
	http.Redirect(v.Writer, v.Request, to, http.StatusSeeOther)
	return nil
}

// finish makes a session for the person whom the provider sends back.
func (l logins) finish(v *page.Visit) error {
	attempt, next, _ := strings.Cut(v.Cookie(attemptCookie), "|")
	v.SetCookie(attemptCookie, "", 0)
	next, _ = url.QueryUnescape(next) // empty if it cannot be read
	next = page.PathOr(page.Operators.Base(), next)
	token, s, err := l.identity.Finish(v.Context, attempt, v.Request.URL.Query(), v.Remote())
	if err != nil {
		return l.refuse(v, err, loginPage{Next: next, Refused: true})
	}
	return v.LogIn(token, s, next)
}
