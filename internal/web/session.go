package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// Session is a person who is logged in.
type Session struct {
	Caller    postrider.Caller
	ExpiresAt time.Time
	Portal    bool // a link to the portal opened it
	// Language is the language that the operator chose for a portal session.
	// Empty: the one of the browser.
	Language string
	// Embedders are the origins that may show the session in a frame, such as
	// https://app.example. Empty: none may.
	Embedders []string
}

// Sessions makes, finds and ends sessions. A token is the secret of one session; the
// browser keeps it in a cookie.
//
// The errors match postrider.ErrNotFound for a key, a code or a token that is
// unknown, used or expired, and [postrider.ErrTooManyTries] after too many tries.
type Sessions interface {
	// Login makes a session of an operator from an API key. from is the address of
	// the client, for the limit of tries.
	Login(ctx context.Context, key string, from netip.Addr) (token string, s Session, err error)
	// Entry returns the session of a portal link by its code, without using the code.
	Entry(ctx context.Context, code string) (Session, error)
	// Redeem makes the session of a portal link. A code works once.
	Redeem(ctx context.Context, code string, from netip.Addr) (token string, s Session, err error)
	// Find returns the session of a token.
	Find(ctx context.Context, token string) (Session, error)
	// Logout ends the session of a token.
	Logout(ctx context.Context, token string) error
}

// errLoggedOut is the error of a page that needs a session and has none.
var errLoggedOut = errors.New("no session")

// errInsecure is the error of a login over plain HTTP from another machine: the
// network would read the cookie, and browsers refuse it.
var errInsecure = errors.New("a login needs HTTPS")

// publicRoutes lists the pages without a session.
func (h *Handler) publicRoutes() []route {
	return []route{
		{pattern: "GET /login", handle: showLogin},
		{pattern: "POST /login", handle: login},
		{pattern: "POST /logout", handle: logout},
		{pattern: "GET /portal/enter/{code}", handle: showEntry},
		{pattern: "POST /portal/enter/{code}", handle: enter},
	}
}

// loginPage is the data of the login.
type loginPage struct {
	Next string // path to go to afterwards
	// Provider is true if an identity provider logs people in, too.
	Provider bool
	// Refused is true if the identity provider gave the person no session.
	Refused bool
	Fault   string // key of the text that says what was wrong; empty: nothing was
}

// showLogin shows the form for an API key.
func showLogin(v *visit) error {
	return v.show(page{Name: "login", Data: loginPage{Next: v.next(), Provider: v.h.Identity != nil}})
}

// login makes a session of an API key. The form is shown again if the key is wrong.
func login(v *visit) error {
	if err := v.secure(); err != nil {
		return err
	}
	token, s, err := v.h.Sessions.Login(v.ctx, strings.TrimSpace(v.form("key")), v.remote())
	if err != nil {
		return v.refuseLogin(err, loginPage{Next: v.next()})
	}
	v.setSession(operators, token, s)
	return v.redirect(v.next())
}

// refuseLogin shows the login again, with what was wrong.
func (v *visit) refuseLogin(err error, p loginPage) error {
	status := http.StatusForbidden
	switch {
	case errors.Is(err, postrider.ErrNotFound) && p.Refused:
		p.Fault = "login.refused"
	case errors.Is(err, postrider.ErrNotFound):
		p.Fault = "login.wrong"
	case errors.Is(err, postrider.ErrTooManyTries):
		p.Fault, status = "login.too_often", http.StatusTooManyRequests
	default:
		return err
	}
	p.Provider = v.h.Identity != nil
	return v.show(page{Name: "login", Status: status, Data: p})
}

// next returns the path of the parameter next, the page to go to after the login.
func (v *visit) next() string { return pageOr(operators.base(), v.param("next")) }

// logout ends the session of the audience that the form names.
func logout(v *visit) error {
	who := operators
	if v.form("from") == customers.base() {
		who = customers
	}
	if token := v.token(who); token != "" {
		if err := v.h.Sessions.Logout(v.ctx, token); err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return err
		}
	}
	v.setSession(who, "", Session{})
	if who == customers {
		v.portal = true
		return v.show(page{Name: "left"})
	}
	return v.redirect("/login")
}

// showEntry shows a button that uses up the code of a portal link. The link itself
// uses up nothing, because mail scanners open links.
func showEntry(v *visit) error {
	s, err := v.h.Sessions.Entry(v.ctx, v.r.PathValue("code"))
	if err != nil {
		return v.refuseEntry(err)
	}
	v.session = s
	v.speak(s)
	return v.show(page{Name: "entry", Data: v.r.URL.Path})
}

// enter makes a portal session from the code of a link.
func enter(v *visit) error {
	if err := v.secure(); err != nil {
		return err
	}
	token, s, err := v.h.Sessions.Redeem(v.ctx, v.r.PathValue("code"), v.remote())
	if err != nil {
		return v.refuseEntry(err)
	}
	v.setSession(customers, token, s)
	return v.redirect(customers.base())
}

// refuseEntry says that a link is used or expired. If this browser has a session of the
// portal, the page leads to it.
func (v *visit) refuseEntry(err error) error {
	if !errors.Is(err, postrider.ErrNotFound) {
		return err
	}
	open := false
	if token := v.token(customers); token != "" {
		s, err := v.h.Sessions.Find(v.ctx, token)
		if err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return err
		}
		if open = err == nil && s.Portal; open {
			v.speak(s)
		}
	}
	return v.show(page{Name: "used", Status: http.StatusGone, Data: open})
}

// cookieName returns the name of a cookie. With the prefix __Host-, a browser takes
// it only over HTTPS and only from this host, so that no other host of the domain can
// plant one.
func cookieName(name string, secure bool) string {
	if secure {
		return "__Host-postrider-" + name
	}
	return "postrider-" + name
}

// cookie returns the name of the session cookie of an audience. Each audience has its own,
// so that an operator who opens a portal stays logged in.
func (a audience) cookie() string { return strings.TrimPrefix(a.base(), "/") }

// overHTTPS reports whether the browser used HTTPS, as far as the server can know. A proxy may
// end TLS. Then the header Origin, which browsers send with forms, has the browser's scheme.
func (v *visit) overHTTPS() bool {
	return v.h.https || v.r.TLS != nil || strings.HasPrefix(v.r.Header.Get("Origin"), "https://")
}

// secure refuses a login by plain HTTP, unless the browser is on the same machine.
func (v *visit) secure() error {
	if v.overHTTPS() || v.isLocal() {
		return nil
	}
	return errInsecure
}

// isLocal reports whether the browser is on the same machine, by the host that it asked for.
func (v *visit) isLocal() bool {
	host, _, err := net.SplitHostPort(v.r.Host)
	if err != nil {
		host = v.r.Host
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

// cookie returns the value of a cookie. Empty: the browser sent none.
func (v *visit) cookie(name string) string {
	if c, err := v.r.Cookie(cookieName(name, true)); err == nil {
		return c.Value
	}
	if v.h.https || v.r.TLS != nil {
		return ""
	}
	if c, err := v.r.Cookie(cookieName(name, false)); err == nil {
		return c.Value
	}
	return ""
}

// setCookie sets a cookie for as long as age says; 0 deletes it. A page that another
// site shows in a frame has its cookies apart for each such site (Partitioned).
func (v *visit) setCookie(name, value string, age time.Duration) {
	secure := v.overHTTPS() || strings.HasPrefix(v.r.Header.Get("Referer"), "https://")
	if _, err := v.r.Cookie(cookieName(name, true)); err == nil {
		secure = true
	}
	c := &http.Cookie{
		Name: cookieName(name, secure), Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if age <= 0 {
		c.MaxAge = -1
	}
	if secure && len(v.session.Embedders) > 0 {
		c.SameSite, c.Partitioned = http.SameSiteNoneMode, true
	}
	http.SetCookie(v.w, c)
}

// token returns the session token that the browser has for the audience. A token without
// __Host- counts only on the same machine, where a login works without TLS: elsewhere another
// host of the domain has planted it, to log the person in as somebody else.
func (v *visit) token(who audience) string {
	if _, err := v.r.Cookie(cookieName(who.cookie(), true)); err != nil && !v.isLocal() {
		return ""
	}
	return v.cookie(who.cookie())
}

// setSession gives the browser the token of a session; empty: it ended.
func (v *visit) setSession(who audience, token string, s Session) {
	age := time.Duration(0)
	if token != "" {
		v.session = s
		age = max(time.Second, s.ExpiresAt.Sub(v.now))
	}
	v.setCookie(who.cookie(), token, age)
}

// remote returns the address of the client: of its connection, or, if that is a trusted proxy's,
// the last address of X-Forwarded-For that is none. What stands before it, the client may have
// written.
func (v *visit) remote() netip.Addr {
	at, err := netip.ParseAddrPort(v.r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from := at.Addr().Unmap()
	passed := strings.Split(strings.Join(v.r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(passed) {
		trusted := func(p netip.Prefix) bool { return p.Contains(from) }
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !slices.ContainsFunc(v.h.opts.TrustedProxies, trusted) {
			break
		}
		from = before.Unmap()
	}
	return from
}
