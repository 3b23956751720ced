package main

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
)

// link logs in the person who opens it to the dashboard of the demonstration. The receivers' server
// serves it, so it works only on this machine, and only while the demonstration runs. The cookie
// that it relays also reaches the dashboard, because both have the same host, and cookies ignore
// ports.
type link struct {
	secret string // last part of the link's path
	// Set by [receivers.dashboard] when the store is open.
	server   http.Handler // serves the pages
	url, key string
}

// newLink returns a link whose other fields receivers.dashboard sets.
func newLink() *link { return &link{secret: rand.Text()} }

// path returns the path of the link on the receivers' server.
func (l *link) path() string { return "/dashboard/" + l.secret }

// ServeHTTP logs in with the admin key, as the login form does, and passes the session to the
// browser.
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
	// The demonstration lasts minutes; without a session this page leads to the login.
	http.Redirect(w, r, l.url+"/dashboard?range=1h", http.StatusSeeOther)
}

// header is a response writer that keeps only the header.
type header http.Header

// Header returns the header.
func (h header) Header() http.Header { return http.Header(h) }

// Write discards the body.
func (header) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader discards the status.
func (header) WriteHeader(int) {}
