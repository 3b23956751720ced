package main

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
)

// link logs the person who opens it in to the dashboard of the demonstration. It is a
// path of the receivers' server, so it works as long as the demonstration runs, and on
// only this machine. The cookie that it relays belongs to the host of the dashboard,
// which is the same: cookies know no ports.
type link struct {
	secret string // the last part of its path
	// Set by [receivers.dashboard], when the store is open.
	server   http.Handler // of the pages
	url, key string
}

// newLink returns a link that dashboard has to complete.
func newLink() *link { return &link{secret: rand.Text()} }

// path returns the path of the link on the receivers' server.
func (l *link) path() string { return "/dashboard/" + l.secret }

// ServeHTTP logs in with the admin key, as the form of the login does, and passes the
// session on to the browser.
func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form := strings.NewReader(url.Values{"key": {l.key}}.Encode())
	login, err := http.NewRequestWithContext(r.Context(), http.MethodPost, l.url+"/login", form)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	login.RemoteAddr = r.RemoteAddr
	response := header{}
	l.server.ServeHTTP(response, login)
	w.Header()["Set-Cookie"] = response.Header()["Set-Cookie"]
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, l.url+"/dashboard?range=1h", http.StatusSeeOther) // the story is minutes long; without a session it leads to the login
}

// header is a response of which only the header matters.
type header http.Header

// Header returns the header.
func (h header) Header() http.Header { return http.Header(h) }

// Write discards the body.
func (header) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader discards the status.
func (header) WriteHeader(int) {}
