package browser_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
)

// A session is what a browser has to show that it is logged in. It sends
// requests without a browser.
type session struct {
	base    string
	cookies []*network.Cookie
}

// session returns the session that the visitor has now.
func (v *visitor) session(t *testing.T) session {
	t.Helper()
	urls := []string{v.base + "/", v.base + "/portal", v.base + "/dashboard"}
	return session{v.base, call(v.newTab(t), network.GetCookies, network.GetCookiesParams{URLs: urls}).Cookies}
}

// request returns a request as the session's browser would send it for a form of
// the server's own pages. A GET has no form.
func (s session) request(t *testing.T, method, path string, form url.Values) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", s.base)
	}
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, cookie := range s.cookies {
		request.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	return request
}

// fetch returns the status and the text of the answer to a request.
func (s session) fetch(t *testing.T, method, path string) (int, string) {
	t.Helper()
	return send(t, s.request(t, method, path, nil))
}

// send sends a request and follows no redirect.
func send(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
	return response.StatusCode, string(text)
}
