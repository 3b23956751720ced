// Package access has the pages about logins, API keys, sessions, and the preferences of a person.
package access

import (
	"embed"
	"errors"
	"net/http"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages about logins, API keys, sessions, and the preferences of a person. A
// nil identity means that there is no identity provider.
func Feature(identity Identity) page.Feature {
	l := logins{identity}
	public := page.Routes{
		"GET /login":                l.show,
		"POST /login":               secure(l.withKey),
		"POST /logout":              logout,
		"GET /portal/enter/{code}":  showEntry,
		"POST /portal/enter/{code}": secure(enter),
	}
	if identity != nil {
		public["GET /login/oidc"], public["GET /login/oidc/callback"] = secure(l.begin), secure(l.finish)
	}
	return page.Feature{
		Templates: templates,
		Operators: page.Routes{
			"GET /api-keys":                   listKeys,
			"GET /api-keys/new":               newKey,
			"POST /api-keys":                  createKey,
			"GET /api-keys/{key}":             page.OfID("key", showKey),
			"POST /api-keys/{key}/revoke":     page.OfID("key", revokeKey),
			"GET /sessions":                   listSessions,
			"POST /sessions/{session}/revoke": page.OfID("session", revokeSession),
		},
		Everyone: page.Routes{
			"GET /preferences":  showPreferences,
			"POST /preferences": setPreferences,
		},
		Public: public,
	}
}

// logins has the handlers of the pages with which operators log in.
type logins struct{ identity Identity }

// secure returns the handler of a page that refuses a login by plain HTTP.
func secure(handle func(*page.Visit) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		if err := v.Secure(); err != nil {
			return err
		}
		return handle(v)
	}
}

// loginPage is the data of the login.
type loginPage struct {
	Next string // path to go to afterwards
	// Provider is true if an identity provider logs people in, too.
	Provider bool
	// Refused is true if the identity provider returned and no session was made.
	Refused bool
	Fault   string // key of the text that says what was wrong; empty: nothing was
}

// show shows the login form for an API key.
func (l logins) show(v *page.Visit) error {
	return v.Show(page.View{Name: "login", Data: loginPage{Next: next(v), Provider: l.identity != nil}})
}

// withKey makes a session from an API key. If the key is wrong, it shows the form again.
func (l logins) withKey(v *page.Visit) error {
	token, s, err := v.Site.Sessions.Login(v.Context, strings.TrimSpace(v.Form("key")), v.Remote())
	if err != nil {
		return l.refuse(v, err, loginPage{Next: next(v)})
	}
	return v.LogIn(token, s, next(v))
}

// refuse shows the login form again, with the reason.
func (l logins) refuse(v *page.Visit, err error, p loginPage) error {
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
	p.Provider = l.identity != nil
	return v.Show(page.View{Name: "login", Status: status, Data: p})
}

// next returns the path to go to after the login, from the parameter next.
func next(v *page.Visit) string { return page.PathOr(page.Operators.Base(), v.Param("next")) }

// logout ends the session of the audience that the form names.
func logout(v *page.Visit) error {
	who := page.Operators
	if v.Form("from") == page.Customers.Base() {
		who = page.Customers
	}
	if token := v.Token(who); token != "" {
		if err := v.Site.Sessions.Logout(v.Context, token); err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return err
		}
	}
	v.LogOut(who)
	if who == page.Customers {
		v.Portal = true
		return v.Show(page.View{Name: "left"})
	}
	return v.Redirect("/login")
}

// showEntry shows a button that redeems the code of a portal link. Opening the link does not
// redeem the code, because mail scanners open links.
func showEntry(v *page.Visit) error {
	s, err := v.Site.Sessions.Entry(v.Context, v.Request.PathValue("code"))
	if err != nil {
		return refuseEntry(v, err)
	}
	if err := v.Use(s); err != nil {
		return err
	}
	return v.Show(page.View{Name: "entry", Data: v.Request.URL.Path})
}

// enter makes a portal session from the code of a link.
func enter(v *page.Visit) error {
	token, s, err := v.Site.Sessions.Redeem(v.Context, v.Request.PathValue("code"), v.Remote())
	if err != nil {
		return refuseEntry(v, err)
	}
	return v.LogIn(token, s, page.Customers.Base())
}

// refuseEntry shows that a link is used or expired. If this browser has a portal session, the
// page links to the portal.
func refuseEntry(v *page.Visit, err error) error {
	if !errors.Is(err, postrider.ErrNotFound) {
		return err
	}
	open := false
	if token := v.Token(page.Customers); token != "" {
		s, err := v.Site.Sessions.Find(v.Context, token)
		if err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return err
		}
		if open = err == nil && s.Kind == postrider.SessionPortal; open {
			v.Speak(s.Locale)
		}
	}
	return v.Show(page.View{Name: "used", Status: http.StatusGone, Data: open})
}
