package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// failure is the data of an error page.
type failure struct {
	Status    int
	Text      string           // key of the texts failure.TEXT.title and failure.TEXT.text
	Detail    string           // text from the API; empty: none
	Faults    []apitypes.Fault // of the request
	RequestID string
	Retry     string // path to try again; empty: another try would not help
}

// fail shows an error as a page.
func (h *Site) fail(v *Visit, err error) {
	if v.Writer.status != 0 { // the response has begun, so no error page can follow
		return
	}
	if errors.Is(err, errLoggedOut) || StatusOf(err) == http.StatusUnauthorized {
		if v.Request.Header.Get("Accept") == "text/event-stream" { // after a 204 a browser does not open the stream again
			v.Writer.WriteHeader(http.StatusNoContent)
			return
		}
		h.askLogin(v)
		return
	}
	if deleted, ok := errors.AsType[*deletedError](err); ok {
		if v.Show(View{Name: "endpoints-deleted", Status: http.StatusGone, Data: deleted}) == nil {
			return
		}
	}
	f := h.failureOf(v, err)
	if f.Status == http.StatusServiceUnavailable || f.Status == http.StatusTooManyRequests {
		v.Writer.Header().Set("Retry-After", "2")
	}
	if shown := v.Show(View{Name: "failure", Title: v.T("failure." + f.Text + ".title"), Status: f.Status, Data: f}); shown != nil {
		h.Options.Log.ErrorContext(v.Context, "error page", "request", v.Writer.id, "error", shown)
		http.Error(v.Writer, http.StatusText(f.Status), f.Status)
	}
}

// askLogin redirects a person without a session to the login. The login redirects back
// afterwards. A customer has to open a new portal link instead.
func (h *Site) askLogin(v *Visit) {
	if v.Who == Customers {
		_ = v.Show(View{Name: "expired", Status: http.StatusUnauthorized})
		return
	}
	to := v.Request.URL.RequestURI()
	if v.Request.Method != http.MethodGet {
		to = v.Base
	}
	_ = v.Redirect("/login?next=" + url.QueryEscape(to)) // Redirect returns nil
}

// failureTexts has the name of the texts of an error page, by status.
var failureTexts = map[int]string{
	http.StatusForbidden: "forbidden", http.StatusNotFound: "not_found", http.StatusConflict: "stale", http.StatusGone: "stale",
	http.StatusUnprocessableEntity: "invalid", http.StatusRequestEntityTooLarge: "invalid",
	http.StatusServiceUnavailable: "unavailable", http.StatusTooManyRequests: "unavailable",
}

// failureOf returns the data of the error page for an error.
func (h *Site) failureOf(v *Visit, err error) failure {
	f := failure{Status: failureStatus(err), RequestID: v.Writer.id}
	f.Text = cmp.Or(failureTexts[f.Status], "internal")
	switch {
	case errors.Is(err, errStarting):
		f.Text = "starting"
	case errors.Is(err, errInsecure):
		f.Text = "insecure"
	}
	if problem, refused := errors.AsType[*client.Error](err); refused {
		if !slices.Contains([]string{"forbidden", "not_found", "internal", "invalid"}, problem.Code) { // the page has a text
			f.Detail = v.Text.Detail(problem)
		}
		for _, fault := range problem.Fields {
			fault.Field, fault.Reason = v.Text.Label(fault.Field), v.Text.Reason(fault)
			f.Faults = append(f.Faults, fault)
		}
	}
	if f.Text == "starting" || f.Text == "unavailable" || f.Text == "internal" {
		f.Retry = v.Request.URL.RequestURI()
		if v.Request.Method != http.MethodGet {
			f.Retry = v.Back()
		}
	}
	return f
}

// failureStatus returns the status of the error page. If the error comes from the API, that is
// the status of the API.
func failureStatus(err error) int {
	if status := StatusOf(err); status != 0 {
		return status
	}
	switch {
	case errors.Is(err, ErrNoPage), errors.Is(err, postrider.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, ErrBadForm):
		return http.StatusUnprocessableEntity
	case errors.Is(err, ErrTooManyStreams), errors.Is(err, postrider.ErrTooManyTries), errors.Is(err, postrider.ErrTooManyReads):
		return http.StatusTooManyRequests
	case errors.Is(err, errForged), errors.Is(err, ErrForbidden), errors.Is(err, errInsecure):
		return http.StatusForbidden
	case errors.Is(err, errStarting), errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, postrider.ErrBusy):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// StatusOf returns the status of an error of the API; 0: the error does not come from the API.
func StatusOf(err error) int {
	if problem, ok := errors.AsType[*client.Error](err); ok {
		return problem.Status
	}
	return 0
}

// PathOr returns the path `to` with its query if it is below the base, otherwise the base. The
// path comes from the browser, and a redirect must not lead to another site. So PathOr refuses a
// path that [http.Redirect] would shorten, and a path with a backslash, which browsers read as a
// slash: /dashboard/../\host would lead to that host.
func PathOr(base, to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Scheme != "" || u.Host != "" || strings.Contains(u.Path, `\`) || path.Clean(u.Path) != u.Path:
		return base
	case u.Path == base || strings.HasPrefix(u.Path, base+"/"):
		return to
	}
	return base
}
