package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// watched is a body that counts what is read of it.
type watched struct {
	io.Reader

	read int
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

// A GET has no form. If its body were read, anybody could fill the disk with the parts
// of a multipart body, which net/http keeps in files.
func TestTheLoginReadsNoBodyOfAGET(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	body := &watched{Reader: strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"next\"\r\n\r\n/dashboard/events\r\n--x--\r\n")}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/login?next=/dashboard/accounts", body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	got := w.send(r)
	if body.read > 0 || !strings.Contains(got.html, `value="/dashboard/accounts"`) {
		t.Errorf("GET /login reads %d bytes of its body and is\n%s", body.read, got.html)
	}
}

// A page shows commands to copy. The author of a link to the page chooses its
// parameters, and must not choose what the person's shell runs.
func TestNoParameterOfAURLIsInACommandAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	const evil = "$(touch evil)"
	for _, path := range []string{"/missed?from=" + url.QueryEscape(evil), "/missed?from=2026-01-31T09:30&pace=" + url.QueryEscape(evil)} {
		got := w.as("operator", "GET /dashboard/endpoints/"+e.ID.String()+path, nil)
		command := "postrider replays create --missed --dry-run --endpoint " + e.ID.String() + " --per-second 10"
		if got.status != http.StatusOK && got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, command) {
			t.Errorf("%s = %d and lacks the command\n%s", path, got.status, got.html)
		}
		for _, code := range strings.Split(got.html, "<code>")[1:] {
			if code, _, _ = strings.Cut(code, "</code>"); strings.Contains(code, "touch") {
				t.Errorf("%s shows the command %s", path, code)
			}
		}
	}
}

// away is an API that is away for the calls whose path ends in a text.
type away struct {
	http.RoundTripper

	suffix string
}

func (a away) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, a.suffix) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return a.RoundTripper.RoundTrip(r)
}

func TestADeliveryWhoseRequestCannotBeReadIsNotShownWithoutIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	_, d := w.dead()
	w.see("operator", "/dashboard/deliveries/"+d.ID.String()+"?attempt=7") // there is no such attempt
	w.web.API = func(c postrider.Caller) http.RoundTripper { return away{w.api.As(c), "/request"} }
	if got := w.as("operator", "GET /dashboard/deliveries/"+d.ID.String(), nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("the page = %d, want 503", got.status)
	}
}

// The foot shows calls of the API to copy, without bodies. A POST without its body would
// do something else: a replay of everything.
func TestTheFootShowsNoCallThatNeedsABody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	got := w.see("operator", "/dashboard/replays/new?endpoint="+e.ID.String())
	_, foot, _ := strings.Cut(got.html, "<footer")
	if strings.Contains(foot, "/replays/dry-run") || !strings.Contains(foot, "replays create --dry-run") {
		t.Errorf("the foot of a replay is\n%s", foot)
	}
}
