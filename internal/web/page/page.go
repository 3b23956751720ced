// Package page has the parts that all pages share: a [Visit], which is one request of one page,
// with its session, its calls of the API and its response; the layout; forms and their faults;
// lists with their filters; and texts and numbers in the language of the person.
//
// A [Site] serves the pages of its features. It promises:
//
//   - A handler runs only with the session that its page needs.
//   - A form of another site never reaches a handler.
//   - A page is written whole or not at all.
//   - An error becomes a page that says what to do.
//
// A feature has its own package, which imports this package and no other feature.
package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/text"
)

// Visit is one request of a person. Its handler calls the API through the visit and ends with
// Show, Done or Redirect. A visit belongs to the goroutine of the request.
type Visit struct {
	Site    *Site
	Writer  *responseWriter
	Request *http.Request
	Context context.Context //nolint:containedctx // a visit is one request; it ends after Options.PageTime

	Posted url.Values // the form of a POST

	Who     Audience          // 0: the page needs no session
	Base    string            // path above all pages of the audience
	Portal  bool              // a page of the portal, with or without a session
	Session postrider.Session // zero: a page without a session
	Caller  postrider.Caller  // of the session
	API     *client.Client

	embedders []string       // origins that may show the session in a frame
	calls     *recorder      // the calls of API, for the foot of the page
	frame     *client.Client // calls the API for the layout; these calls are not recorded
	Text      *text.Catalogue
	Zone      *time.Location
	Now       time.Time
	flash     Flash // message of the form before this page; zero: none

	notEffective apitypes.NotEffective // nodes on which this visit's change is not in effect yet; zero: the change is in effect

	Names Names // of endpoints and accounts, for the page
}

// View is what a handler shows.
type View struct {
	// Name is the template of the page. If Title is empty, the title is the text NAME.title. The
	// part of the name before a dash is the section of the navigation.
	Name  string
	Title string
	Data  any
	// Filters are the filters of a list; see [ShowList].
	Filters Filters
	// Status is the HTTP status of the response. 0: 200, or 422 if Refused is set.
	Status int
	// Refused means that the page shows a form or filter again, with its faults.
	Refused bool
	// Commands are the CLI commands that do the same as the page, without the name of the
	// program.
	Commands []string
}

// The errors of pages that do not come from the API.
var (
	ErrNoPage         = errors.New("no such page")
	ErrBadForm        = errors.New("the form cannot be read")
	ErrForbidden      = errors.New("the session does not permit it")
	ErrTooManyStreams = errors.New("too many streams are open")
	errStarting       = errors.New("the server is starting")
)

// maxForm is the largest form, in bytes. The largest field is a certificate chain.
const maxForm = 256 << 10

// inSession returns the handler of a page that needs a session of the audience.
func (h *Site) inSession(who Audience, handle func(*Visit) error) http.HandlerFunc {
	return h.serve(who, func(v *Visit) error {
		switch err := h.enter(v); {
		case errors.Is(err, postrider.ErrNotFound):
			return errLoggedOut
		case err != nil:
			return err
		}
		if err := h.share(v); err != nil {
			return err
		}
		return handle(v)
	})
}

// share waits for the turn of a page. The turn ends with the first byte of the response, so that
// a slow browser does not keep the turn. A form does not wait for a turn, because it may wait for
// a receiver.
func (h *Site) share(v *Visit) error {
	if v.Request.Method == http.MethodPost || h.Share == nil {
		return nil
	}
	ctx, end, err := h.Share(v.Context, v.Caller)
	if err != nil {
		v.frame = nil // so that the error page calls nothing
		return err
	}
	v.Context, v.Writer.began = ctx, end
	return nil
}

// lost returns ErrNoPage for a path without a page. A person with a session still gets the
// navigation.
func (h *Site) lost(v *Visit) error {
	_ = h.enter(v) // an error means that there is no navigation
	return ErrNoPage
}

// serve returns a handler that makes the visit, calls handle, and shows the error of handle. It
// writes the single log line of the request.
func (h *Site) serve(who Audience, handle func(*Visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), h.Options.PageTime, errSlow)
		defer cancel()
		v := &Visit{
			Site: h, Request: r, Context: ctx, Who: who, Base: max(who, Operators).Base(), Now: h.Now(),
			Writer: &responseWriter{ResponseWriter: w, id: "req_" + strings.ToLower(rand.Text()[:16])},
		}
		defer func() { v.Writer.begin() }() // runs after a panic, too
		v.Portal = who == Customers || strings.HasPrefix(r.URL.Path, Customers.Base()+"/")
		v.Writer.Header().Set("Request-Id", v.Writer.id)
		v.Text = h.Texts.Choose(v.Cookie("language"), r.Header.Get("Accept-Language"))
		v.Zone = zoneOf(v.Cookie("zone"))
		err := h.call(v, handle)
		if err != nil {
			h.fail(v, err)
		}
		h.record(v, err)
	}
}

// errSlow is the cause when a page took longer than Options.PageTime.
var errSlow = errors.New("the page took too long")

// call parses the form, if there is one, and calls the handler. It turns a panic into an error,
// so that a panic ends only this request.
func (h *Site) call(v *Visit, handle func(*Visit) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // recover returns it itself
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		} else if cause != nil {
			panic(cause)
		}
	}()
	if v.Request.Method == http.MethodPost {
		v.Request.Body = http.MaxBytesReader(v.Writer, v.Request.Body, maxForm)
		if err := v.Request.ParseForm(); err != nil {
			return ErrBadForm
		}
		v.Posted = v.Request.PostForm //nolint:forbidigo // of the request; nothing is sent
	}
	return handle(v)
}

// record writes the log line of the request. Only a fault of the pages has the level error. An
// error of the API is logged by the API, with its cause. A browser that left is not an error.
func (h *Site) record(v *Visit, err error) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("request", v.Writer.id), slog.String("method", v.Request.Method), slog.String("page", v.Request.Pattern),
		slog.Int("status", v.Writer.status), slog.Duration("took", time.Since(v.Now)), slog.Int("bytes", v.Writer.size),
	}
	if v.calls != nil {
		attrs = append(attrs, slog.Int("calls", len(v.calls.made)), slog.String("by", v.Caller.Name))
	}
	if v.Writer.status >= http.StatusInternalServerError {
		if StatusOf(err) == 0 && v.Request.Context().Err() == nil {
			level = slog.LevelError
		}
		attrs = append(attrs, slog.Any("error", err))
	}
	h.Options.Log.LogAttrs(v.Request.Context(), level, "page", attrs...)
}

// RenderPart writes one template, without the layout. It forgets the calls of the API for this
// part, because no page shows them.
func (v *Visit) RenderPart(to io.Writer, name string, data any) error {
	v.calls.made = nil
	return v.Site.pages.renderPart(to, v, name, data)
}

// connect makes the client with which the visit calls the API as its person.
func (h *Site) connect(v *Visit) {
	brief := &briefTransport{h.API(v.Caller), h.brief, v.Caller}
	v.calls = &recorder{next: brief}
	by := func(transport http.RoundTripper) *client.Client {
		return client.New("http://api.internal", "", client.Options{
			Attempts: 1, Timeout: h.Options.PageTime, Transport: transport,
			OnNotEffective: func(n apitypes.NotEffective) { v.notEffective = n },
		})
	}
	v.API, v.frame = by(v.calls), by(brief)
}

// holdOf returns whether the store is held after a restore. If the call fails, it returns the
// zero value, and the page does not show a hold.
func holdOf(v *Visit) apitypes.Hold {
	if v.frame == nil {
		return apitypes.Hold{}
	}
	hold, err := v.frame.Hold(v.Context)
	if err != nil {
		return apitypes.Hold{}
	}
	return hold
}

// recorder is a transport that records the calls of the API.
type recorder struct {
	next http.RoundTripper
	made []apiCall
}

// apiCall is one call of the API by a page.
type apiCall struct{ Method, Path string }

// RoundTrip records the call and makes it.
func (t *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	t.made = append(t.made, apiCall{r.Method, r.URL.RequestURI()})
	return t.next.RoundTrip(r)
}

// Show renders a page and writes it as the response. It writes only after all is rendered. So if
// a template fails, the person gets a whole error page.
func (v *Visit) Show(p View) error {
	var body bytes.Buffer
	if err := v.Site.pages.render(&body, v, p); err != nil {
		return fmt.Errorf("render %s: %w", p.Name, err)
	}
	if v.flash.Text != "" {
		v.SetCookie("flash", "", 0)
	}
	header := v.Writer.Header()
	v.Policy(header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	// Only responses to forms show secrets, and these are not compressed. The length of a
	// compressed page would tell whether its secret resembles a text that an attacker put on the
	// page (BREACH).
	content := body.Bytes()
	if v.Request.Method != http.MethodPost {
		content = compressed(header, v.Request, content)
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	if p.Refused {
		p.Status = cmp.Or(p.Status, http.StatusUnprocessableEntity)
	}
	v.Writer.WriteHeader(max(p.Status, http.StatusOK))
	if v.Request.Method != http.MethodHead {
		_, _ = v.Writer.Write(content) // after an error the browser is gone
	}
	return nil
}

// Policy sets the headers that restrict the page. Only the embedders of the session may show the
// page in a frame. Without a session, these are the origins that the operator configured, so that
// an embedded portal can show that its session has ended.
func (v *Visit) Policy(header http.Header) {
	embedders, origins := "'none'", v.embedders
	if v.Portal && v.API == nil && len(origins) == 0 {
		origins = v.Site.brands.get(v.Context, v.Now).FrameOrigins
	}
	if len(origins) > 0 {
		embedders = strings.Join(origins, " ")
	} else {
		header.Set("X-Frame-Options", "DENY")
	}
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors "+embedders)
	header.Set("Cache-Control", "no-store")
}

// Redirect sends the browser to a path of this server, as the response to a form.
func (v *Visit) Redirect(path string) error {
	v.Policy(v.Writer.Header())
	http.Redirect(v.Writer, v.Request, path, http.StatusSeeOther)
	return nil
}

// origin returns the URL of this server, for commands to copy. Links of pages are paths and do
// not use it.
func (h *Site) origin() string {
	if h.Options.PublicURL != "" {
		return strings.TrimSuffix(h.Options.PublicURL, "/")
	}
	return "http://localhost:8080"
}

// Path returns the path of a page of this audience. Each part is escaped.
func (v *Visit) Path(parts ...any) string {
	var path strings.Builder
	path.WriteString(v.Base)
	for _, part := range parts {
		path.WriteString("/" + url.PathEscape(fmt.Sprint(part)))
	}
	return path.String()
}

// T returns the text of a key, with its arguments as names and values in turn.
func (v *Visit) T(key string, args ...any) string { return v.Text.Get(key, args...) }

// Query returns a parameter of the URL, without the spaces around it.
func (v *Visit) Query(name string) string { return strings.TrimSpace(v.Request.URL.Query().Get(name)) }

// Form returns a field of the form, without the spaces around it.
func (v *Visit) Form(name string) string { return strings.TrimSpace(v.Posted.Get(name)) }

// Param returns a field of the form; if it is empty, the parameter of the URL. It replaces
// [http.Request.FormValue], which reads a body of any size that comes with a GET.
func (v *Visit) Param(name string) string { return cmp.Or(v.Form(name), v.Query(name)) }

// Can reports whether the person has the scope.
func (v *Visit) Can(scope postrider.Scope) bool { return v.Caller.Allows(scope) }

// PathID returns the id in the path of the request. If the text is not an id, the error matches
// postrider.ErrNotFound.
func PathID[I any, P textID[I]](v *Visit, name string) (I, error) {
	id, err := postrider.ParseID[I, P](v.Request.PathValue(name))
	if err != nil {
		return id, fmt.Errorf("%s: %w", name, postrider.ErrNotFound)
	}
	return id, nil
}

// Back returns the path of the page with the form; if the path is unknown, the base.
func (v *Visit) Back() string { return PathOr(v.Base, v.Form("back")) }
