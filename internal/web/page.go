package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// visit is one request of a person. Its handler asks the API through it and ends with
// show, done or redirect. It belongs to the goroutine of the request.
type visit struct {
	h   *Handler
	w   *responseWriter
	r   *http.Request
	ctx context.Context //nolint:containedctx // a visit is one request; it ends after Options.PageTime

	posted url.Values // the form of a POST

	who     audience // 0: a page without a session
	base    string   // path that all pages of the audience are below
	portal  bool     // a page of the portal, with or without a session
	session Session  // zero: a page without a session
	api     *client.Client
	calls   *recorder      // the calls of api, for the foot of the page
	frame   *client.Client // calls the API for what surrounds the page; its calls are not recorded
	text    *catalogue
	zone    *time.Location
	now     time.Time
	flash   flash // what the form before this page did; zero: nothing

	notEffective apitypes.NotEffective // of what this visit changed; zero: it is in effect

	names names // of endpoints and accounts, for the page
}

// page is what a handler shows.
type page struct {
	// Name is the template of the page. The text NAME.title is its title, unless
	// Title is set, and the section of the navigation is the part of the name
	// before a dash.
	Name  string
	Title string
	Data  any
	// Status is the status of the response. 0: 200.
	Status int
	// Commands are the commands of the command line that do what the page does,
	// without the name of the program.
	Commands []string
}

// The errors of pages that are no errors of the API.
var (
	errNoPage         = errors.New("no such page")
	errBadForm        = errors.New("the form cannot be read")
	errForbidden      = errors.New("the session does not permit it")
	errTooManyStreams = errors.New("too many streams are open")
	errStarting       = errors.New("the server is starting")
)

// maxForm is the largest form, in bytes. The largest field is a certificate chain.
const maxForm = 256 << 10

// inSession returns the handler of a page that needs a session of the audience.
func (h *Handler) inSession(who audience, handle func(*visit) error) http.HandlerFunc {
	return h.serve(who, func(v *visit) error {
		token := v.token(who)
		if token == "" {
			return errLoggedOut
		}
		s, err := h.Sessions.Find(v.ctx, token)
		switch {
		case errors.Is(err, postrider.ErrNotFound):
			return errLoggedOut
		case err != nil:
			return err
		}
		if (who == customers) != s.Portal {
			return errLoggedOut
		}
		v.enter(s)
		if err := v.share(); err != nil {
			return err
		}
		return handle(v)
	})
}

// share waits for the turn of a page. The turn ends with the first byte of the response, so
// that a browser that does not read keeps none. A form has no turn of its own: it may wait
// for a receiver.
func (v *visit) share() error {
	if v.r.Method == http.MethodPost || v.h.Share == nil {
		return nil
	}
	ctx, end, err := v.h.Share(v.ctx, v.session.Caller)
	if err != nil {
		v.frame = nil // the error page makes no calls
		return err
	}
	v.ctx, v.w.began = ctx, end
	return nil
}

// lost returns errNoPage, for a path that no page has. A person with a session keeps the
// menu.
func (v *visit) lost() error {
	if s, err := v.h.Sessions.Find(v.ctx, v.token(v.who)); err == nil && s.Portal == (v.who == customers) {
		v.enter(s)
	}
	return errNoPage
}

// inPublic returns the handler of a page without a session.
func (h *Handler) inPublic(handle func(*visit) error) http.HandlerFunc { return h.serve(0, handle) }

// serve returns a handler that makes the visit, calls handle, and shows its error.
// It writes the one log line of the request.
func (h *Handler) serve(who audience, handle func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), h.opts.PageTime, errSlow)
		defer cancel()
		v := &visit{
			h: h, r: r, ctx: ctx, who: who, base: max(who, operators).base(), now: h.Now(),
			w: &responseWriter{ResponseWriter: w, id: "req_" + strings.ToLower(rand.Text()[:16])},
		}
		defer func() { v.w.begin() }() // also after a panic
		v.portal = who == customers || strings.HasPrefix(r.URL.Path, customers.base()+"/")
		v.w.Header().Set("Request-Id", v.w.id)
		v.text = h.texts.choose(v.cookie("language"), r.Header.Get("Accept-Language"))
		v.zone = zoneOf(v.cookie("zone"))
		err := v.call(handle)
		if err != nil {
			v.fail(err)
		}
		v.record(err)
	}
}

// errSlow is the cause of the end of a page that took longer than Options.PageTime.
var errSlow = errors.New("the page took too long")

// call reads the form, if there is one, and calls the handler. A panic becomes an
// error, and ends only this request.
func (v *visit) call(handle func(*visit) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // recover returns it itself
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		} else if cause != nil {
			panic(cause)
		}
	}()
	if v.r.Method == http.MethodPost {
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
		if err := v.r.ParseForm(); err != nil {
			return errBadForm
		}
		v.posted = v.r.PostForm //nolint:forbidigo // of the request; nothing is sent
	}
	return handle(v)
}

// record writes the log line of the request. The level is error only for a fault of the pages:
// an error of the API has a line of its own, with its cause, and a browser that left is none.
func (v *visit) record(err error) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("request", v.w.id), slog.String("method", v.r.Method), slog.String("page", v.r.Pattern),
		slog.Int("status", v.w.status), slog.Duration("took", time.Since(v.now)), slog.Int("bytes", v.w.size),
	}
	if v.calls != nil {
		attrs = append(attrs, slog.Int("calls", len(v.calls.made)), slog.String("by", v.session.Caller.Name))
	}
	if v.w.status >= http.StatusInternalServerError {
		if statusOf(err) == 0 && v.r.Context().Err() == nil {
			level = slog.LevelError
		}
		attrs = append(attrs, slog.Any("error", err))
	}
	v.h.opts.Log.LogAttrs(v.r.Context(), level, "page", attrs...)
}

// enter makes the visit that of a session.
func (v *visit) enter(s Session) {
	v.session = s
	v.session.Caller.Request = v.w.id
	v.speak(s)
	v.connect()
	v.flash = v.takeFlash()
}

// connect makes the client by which the visit calls the API as its person.
func (v *visit) connect() {
	brief := &briefTransport{v.h.API(v.session.Caller), v.h.brief, v.session.Caller}
	v.calls = &recorder{next: brief}
	by := func(transport http.RoundTripper) *client.Client {
		return client.New("http://api.internal", "", client.Options{
			Attempts: 1, Timeout: v.h.opts.PageTime, Transport: transport,
			OnNotEffective: func(n apitypes.NotEffective) { v.notEffective = n },
		})
	}
	v.api, v.frame = by(v.calls), by(brief)
}

// hold returns whether the store is held after a restore. A page is shown without it if the
// API does not say.
func (v *visit) hold() apitypes.Hold {
	if v.frame == nil {
		return apitypes.Hold{}
	}
	hold, err := v.frame.Hold(v.ctx)
	if err != nil {
		return apitypes.Hold{}
	}
	return hold
}

// speak chooses the language that the operator chose for the session, unless the person has
// chosen one.
func (v *visit) speak(s Session) {
	if v.cookie("language") == "" && s.Language != "" {
		v.text = v.h.texts.choose(s.Language)
	}
}

// recorder is a transport that notes the calls of the API.
type recorder struct {
	next http.RoundTripper
	made []apiCall
}

// apiCall is one call that a page made of the API.
type apiCall struct{ Method, Path string }

// RoundTrip notes the call and makes it.
func (t *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	t.made = append(t.made, apiCall{r.Method, r.URL.RequestURI()})
	return t.next.RoundTrip(r)
}

// show renders a page and writes it as the response. Nothing is written before all is
// rendered, so an error of a template is a whole error page.
func (v *visit) show(p page) error {
	var body bytes.Buffer
	if err := v.h.pages.render(&body, v, p); err != nil {
		return fmt.Errorf("render %s: %w", p.Name, err)
	}
	if v.flash.Text != "" {
		v.setCookie("flash", "", 0)
	}
	header := v.w.Header()
	v.policy(header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	// Only responses to forms show secrets, and these are not compressed: the length of
	// a compressed page tells whether its secret resembles a text that an attacker has
	// put on the page (BREACH).
	content := body.Bytes()
	if v.r.Method != http.MethodPost {
		content = compressed(header, v.r, content)
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	v.w.WriteHeader(max(p.Status, http.StatusOK))
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(content) // an error means that the browser is gone
	}
	return nil
}

// compressed returns the content for a browser that takes gzip, with the header that
// says so, and the content itself for others.
func compressed(header http.Header, r *http.Request, content []byte) []byte {
	header.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return content
	}
	var small bytes.Buffer
	writer := gzip.NewWriter(&small)
	_, _ = writer.Write(content) // a buffer takes everything
	if err := writer.Close(); err != nil {
		return content
	}
	header.Set("Content-Encoding", "gzip")
	return small.Bytes()
}

// policy sets the headers that restrict the page. Only the embedders of the session may
// show it in a frame. Without a session these are the origins that the operator named, so
// that an embedded portal can show that its session has ended.
func (v *visit) policy(header http.Header) {
	embedders, origins := "'none'", v.session.Embedders
	if v.portal && v.api == nil && len(origins) == 0 {
		origins = v.h.brands.get(v.ctx, v.now).FrameOrigins
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

// redirect leads the browser to a path of this server, as the response to a form.
func (v *visit) redirect(path string) error {
	v.policy(v.w.Header())
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// origin returns the URL of this server, for commands to copy. Links of pages never
// have it.
func (v *visit) origin() string {
	if v.h.opts.PublicURL != "" {
		return strings.TrimSuffix(v.h.opts.PublicURL, "/")
	}
	return "http://localhost:8080"
}

// path returns the path of a page of this audience. Each part is escaped.
func (v *visit) path(parts ...any) string {
	var path strings.Builder
	path.WriteString(v.base)
	for _, part := range parts {
		path.WriteString("/" + url.PathEscape(fmt.Sprint(part)))
	}
	return path.String()
}

// t returns the text of a key, with its arguments as names and values in turn.
func (v *visit) t(key string, args ...any) string { return v.text.get(key, args...) }

// query returns a parameter of the URL, without the spaces around it.
func (v *visit) query(name string) string { return strings.TrimSpace(v.r.URL.Query().Get(name)) }

// form returns a field of the form, without the spaces around it.
func (v *visit) form(name string) string { return strings.TrimSpace(v.posted.Get(name)) }

// param returns a field of the form, else the parameter of the URL. It takes the place of
// [http.Request.FormValue], which reads a body of any size that comes with a GET.
func (v *visit) param(name string) string { return cmp.Or(v.form(name), v.query(name)) }

// can reports whether the person has the scope.
func (v *visit) can(scope postrider.Scope) bool { return v.session.Caller.Allows(scope) }

// pathID returns the id in the path of the request. The error for another text matches
// postrider.ErrNotFound.
func pathID[I any](v *visit, name string, parse func(string) (I, error)) (I, error) {
	id, err := parse(v.r.PathValue(name))
	if err != nil {
		return id, fmt.Errorf("%s: %w", name, postrider.ErrNotFound)
	}
	return id, nil
}

// failure is the data of an error page.
type failure struct {
	Status    int
	Text      string           // key of the texts failure.TEXT.title and failure.TEXT.text
	Detail    string           // what the API said; empty: nothing
	Faults    []apitypes.Fault // of the request
	RequestID string
	Retry     string // path to try again; empty: that is of no use
}

// fail shows an error as a page.
func (v *visit) fail(err error) {
	if v.w.status != 0 { // the response has begun, so nothing else can be said
		return
	}
	if errors.Is(err, errLoggedOut) || statusOf(err) == http.StatusUnauthorized {
		if v.r.Header.Get("Accept") == "text/event-stream" { // a browser opens no stream again after a 204
			v.w.WriteHeader(http.StatusNoContent)
			return
		}
		v.askLogin()
		return
	}
	if deleted, ok := errors.AsType[*deletedError](err); ok {
		if v.show(page{Name: "endpoints-deleted", Status: http.StatusGone, Data: endpointPage{Endpoint: deleted.endpoint}}) == nil {
			return
		}
	}
	f := v.failureOf(err)
	if f.Status == http.StatusServiceUnavailable || f.Status == http.StatusTooManyRequests {
		v.w.Header().Set("Retry-After", "2")
	}
	if shown := v.show(page{Name: "failure", Title: v.t("failure." + f.Text + ".title"), Status: f.Status, Data: f}); shown != nil {
		v.h.opts.Log.ErrorContext(v.ctx, "error page", "request", v.w.id, "error", shown)
		http.Error(v.w, http.StatusText(f.Status), f.Status)
	}
}

// askLogin leads a person without a session to the login, and back afterwards. A
// customer has to open a new link.
func (v *visit) askLogin() {
	if v.who == customers {
		_ = v.show(page{Name: "expired", Status: http.StatusUnauthorized})
		return
	}
	to := v.r.URL.RequestURI()
	if v.r.Method != http.MethodGet {
		to = v.base
	}
	_ = v.redirect("/login?next=" + url.QueryEscape(to)) // it returns nil
}

// failureTexts are the texts of error pages, by status.
var failureTexts = map[int]string{
	http.StatusForbidden: "forbidden", http.StatusNotFound: "not_found", http.StatusConflict: "stale", http.StatusGone: "stale",
	http.StatusUnprocessableEntity: "invalid", http.StatusRequestEntityTooLarge: "invalid",
	http.StatusServiceUnavailable: "unavailable", http.StatusTooManyRequests: "unavailable",
}

// failureOf returns what an error page says about an error.
func (v *visit) failureOf(err error) failure {
	f := failure{Status: failureStatus(err), RequestID: v.w.id}
	f.Text = cmp.Or(failureTexts[f.Status], "internal")
	switch {
	case errors.Is(err, errStarting):
		f.Text = "starting"
	case errors.Is(err, errInsecure):
		f.Text = "insecure"
	}
	if problem, refused := errors.AsType[*client.Error](err); refused {
		if !slices.Contains([]string{"forbidden", "not_found", "internal", "invalid"}, problem.Code) { // the page says it
			f.Detail = v.detail(problem)
		}
		for _, fault := range problem.Fields {
			fault.Field, fault.Reason = v.label(fault.Field), v.reason(fault)
			f.Faults = append(f.Faults, fault)
		}
	}
	if f.Text == "starting" || f.Text == "unavailable" || f.Text == "internal" {
		f.Retry = v.r.URL.RequestURI()
		if v.r.Method != http.MethodGet {
			f.Retry = v.back()
		}
	}
	return f
}

// failureStatus returns the status of the error page for an error: the one of the API, if
// the API returned the error.
func failureStatus(err error) int {
	if status := statusOf(err); status != 0 {
		return status
	}
	switch {
	case errors.Is(err, errNoPage), errors.Is(err, postrider.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, errBadForm):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errTooManyStreams), errors.Is(err, postrider.ErrTooManyTries), errors.Is(err, postrider.ErrTooManyReads):
		return http.StatusTooManyRequests
	case errors.Is(err, errForged), errors.Is(err, errForbidden), errors.Is(err, errInsecure):
		return http.StatusForbidden
	case errors.Is(err, errStarting), errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, postrider.ErrBusy):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// statusOf returns the status of an error of the API; 0: it is none.
func statusOf(err error) int {
	if problem, ok := errors.AsType[*client.Error](err); ok {
		return problem.Status
	}
	return 0
}

// back returns the page that the form was on; the base if that is unknown.
func (v *visit) back() string { return pageOr(v.base, v.form("back")) }

// pageOr returns the path with its query if it is one of a page below the base, else the
// base. The path comes from the browser: a redirect to it must not lead to another site.
// A path that [http.Redirect] would shorten, or with a backslash, which browsers read as a
// slash, is refused: /dashboard/../\host would lead to that host.
func pageOr(base, to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Scheme != "" || u.Host != "" || strings.Contains(u.Path, `\`) || path.Clean(u.Path) != u.Path:
		return base
	case u.Path == base || strings.HasPrefix(u.Path, base+"/"):
		return to
	}
	return base
}

// responseWriter notes what the log line needs.
type responseWriter struct {
	http.ResponseWriter

	id     string // of the request
	status int    // 0: nothing was written
	size   int
	began  func() // ends the turn of the page; nil: it has none
}

// begin ends the turn of the page.
func (w *responseWriter) begin() {
	if w.began != nil {
		w.began()
	}
}

// WriteHeader notes the first status.
func (w *responseWriter) WriteHeader(status int) {
	w.begin()
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.size += len(p)
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the writer of net/http, for [http.ResponseController].
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
