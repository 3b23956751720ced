package page

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

// enter sets the session of the visit from the browser's token. If the browser has no session of
// the audience, the error matches postrider.ErrNotFound.
func (h *Site) enter(v *Visit) error {
	token := v.Token(v.Who)
	if token == "" {
		return postrider.ErrNotFound
	}
	s, err := h.Sessions.Find(v.Context, token)
	if err != nil {
		return err
	}
	if (v.Who == Customers) != (s.Kind == postrider.SessionPortal) {
		return postrider.ErrNotFound
	}
	if err := v.Use(s); err != nil {
		return err
	}
	h.connect(v)
	v.flash = takeFlash(v)
	return nil
}

// Use sets the session of the visit.
func (v *Visit) Use(s postrider.Session) error {
	embedders, err := v.Site.embedders(v.Context, s)
	if err != nil {
		return err
	}
	v.Session, v.Caller, v.embedders = s, s.Caller(), embedders
	v.Caller.Request = v.Writer.id
	v.Speak(s.Locale)
	return nil
}

// embedders returns the origins that may show the session in a frame. It reads the current
// setting, so an origin that the operator removes can no longer show open sessions.
func (h *Site) embedders(ctx context.Context, s postrider.Session) ([]string, error) {
	if !s.Embedded || h.Brand == nil {
		return nil, nil
	}
	settings, err := h.Brand.Portal(ctx)
	return settings.FrameOrigins, err
}

// FindSession reads the session again. If the session has ended, the error matches
// postrider.ErrNotFound.
func (v *Visit) FindSession(ctx context.Context) error {
	s, err := v.Site.Sessions.Find(ctx, v.Token(v.Who))
	if err == nil {
		_, err = v.Site.embedders(ctx, s)
	}
	return err
}

// Outlive returns a copy of the visit for work that may last longer than the visit and its
// session. The caller of the copy has the given name, the account of the person, and only the
// scope webhooks:read.
func (v *Visit) Outlive(name string) *Visit {
	longer := *v
	longer.Names = Names{}
	longer.Caller = postrider.Caller{
		Name: name, Account: v.Caller.Account, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}, Request: v.Writer.id,
	}
	v.Site.connect(&longer)
	return &longer
}

// Speak sets the language that somebody else chose for the person, unless the person chose one.
func (v *Visit) Speak(language string) {
	if v.Cookie("language") == "" && language != "" {
		v.Text = v.Site.Texts.Choose(language)
	}
}

// Sessions creates, finds and ends sessions. A token is the secret of one session; the browser
// keeps it in a cookie.
//
// If a key, a code or a token is unknown, used or expired, the error matches
// postrider.ErrNotFound. After too many tries it matches [postrider.ErrTooManyTries].
type Sessions interface {
	// Login creates a session of an operator from an API key. from is the address of the client,
	// for the limit of tries.
	Login(ctx context.Context, key string, from netip.Addr) (token string, s postrider.Session, err error)
	// Entry returns the session of a portal link by its code. The code stays unused.
	Entry(ctx context.Context, code string) (postrider.Session, error)
	// Redeem creates the session of a portal link. A code works once.
	Redeem(ctx context.Context, code string, from netip.Addr) (token string, s postrider.Session, err error)
	// Find returns the session of a token.
	Find(ctx context.Context, token string) (postrider.Session, error)
	// Logout ends the session of a token.
	Logout(ctx context.Context, token string) error
}

// errLoggedOut means that a page needs a session and the browser has none.
var errLoggedOut = errors.New("no session")

// errInsecure refuses a login over plain HTTP from another machine. The network could read the
// cookie, and browsers would refuse it.
var errInsecure = errors.New("a login needs HTTPS")

// cookieName returns the name of a cookie. A browser accepts a cookie with the prefix __Host-
// only over HTTPS and only from this host, so no other host of the domain can set it.
func cookieName(name string, secure bool) string {
	if secure {
		return "__Host-postrider-" + name
	}
	return "postrider-" + name
}

// cookie returns the name of the session cookie of an audience. Each audience has its own,
// so that an operator who opens a portal stays logged in.
func (a Audience) cookie() string { return strings.TrimPrefix(a.Base(), "/") }

// overHTTPS reports whether the browser used HTTPS, as far as the server can tell. If a proxy
// ends TLS, the header Origin, which browsers send with forms, has the browser's scheme.
func (v *Visit) overHTTPS() bool {
	return v.Site.https || v.Request.TLS != nil || strings.HasPrefix(v.Request.Header.Get("Origin"), "https://")
}

// Secure refuses a login by plain HTTP, unless the browser is on the same machine.
func (v *Visit) Secure() error {
	if v.overHTTPS() || isLocal(v.Request) {
		return nil
	}
	return errInsecure
}

// isLocal reports whether the browser is on the same machine, by the host that it asked for.
func isLocal(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

// Cookie returns the value of a cookie. Empty: the browser sent none.
func (v *Visit) Cookie(name string) string {
	if c, err := v.Request.Cookie(cookieName(name, true)); err == nil {
		return c.Value
	}
	if v.Site.https || v.Request.TLS != nil {
		return ""
	}
	if c, err := v.Request.Cookie(cookieName(name, false)); err == nil {
		return c.Value
	}
	return ""
}

// SetCookie sets a cookie for the duration age; 0 deletes it. If another site shows the page in a
// frame, the cookie is separate for each such site (Partitioned).
func (v *Visit) SetCookie(name, value string, age time.Duration) {
	secure := v.overHTTPS() || strings.HasPrefix(v.Request.Header.Get("Referer"), "https://")
	if _, err := v.Request.Cookie(cookieName(name, true)); err == nil {
		secure = true
	}
	c := &http.Cookie{
		Name: cookieName(name, secure), Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if age <= 0 {
		c.MaxAge = -1
	}
	if secure && len(v.embedders) > 0 {
		c.SameSite, c.Partitioned = http.SameSiteNoneMode, true
	}
	http.SetCookie(v.Writer, c)
}

// Token returns the browser's session token of the audience. Without the prefix __Host- a token
// counts only on the same machine, where a login works without TLS. On other machines another
// host of the domain has set it, to log the person in as somebody else.
func (v *Visit) Token(who Audience) string {
	if _, err := v.Request.Cookie(cookieName(who.cookie(), true)); err != nil && !isLocal(v.Request) {
		return ""
	}
	return v.Cookie(who.cookie())
}

// LogIn sets the cookie with the token of a session, and redirects to a path.
func (v *Visit) LogIn(token string, s postrider.Session, path string) error {
	who := Operators
	if s.Kind == postrider.SessionPortal {
		who = Customers
	}
	if err := v.Use(s); err != nil {
		return err
	}
	v.SetCookie(who.cookie(), token, max(time.Second, s.ExpiresAt.Sub(v.Now)))
	return v.Redirect(path)
}

// LogOut deletes the cookie with the token of an audience.
func (v *Visit) LogOut(who Audience) { v.SetCookie(who.cookie(), "", 0) }

// Remote returns the address of the client. If the connection comes from a trusted proxy, that is
// the last address of X-Forwarded-For that is not a trusted proxy. The addresses before it are
// ignored, because the client may have written them.
func (v *Visit) Remote() netip.Addr {
	at, err := netip.ParseAddrPort(v.Request.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from := at.Addr().Unmap()
	passed := strings.Split(strings.Join(v.Request.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(passed) {
		trusted := func(p netip.Prefix) bool { return p.Contains(from) }
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !slices.ContainsFunc(v.Site.Options.TrustedProxies, trusted) {
			break
		}
		from = before.Unmap()
	}
	return from
}
