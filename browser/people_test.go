package browser_test

import "testing"

// logIn logs a visitor in as an admin: a page sends them to the login, which
// asks for the key and leads back. It returns their tab.
func (w *world) logIn(t *testing.T, v *visitor) *tab {
	t.Helper()
	tb := v.newTab(t)
	tb.open("/dashboard/endpoints")
	tb.fill("API key", w.key)
	tb.click("Log in")
	tb.find("heading", "Endpoints")
	return tb
}

// link returns a portal link for the account, as a platform asks for it.
func (w *world) link(t *testing.T, account string) string {
	t.Helper()
	return w.call(t, "POST /portal-sessions", object{"account": account}).id("url")
}

// enter makes a visitor a customer of the account: they open a portal link.
func (w *world) enter(t *testing.T, account string, as who) {
	t.Helper()
	w.visitors[as] = newVisitor(t, w.url)
	tb := w.visitors[as].newTab(t)
	tb.open(w.link(t, account))
	tb.click("Continue")
	tb.find("link", "Endpoints")
}
