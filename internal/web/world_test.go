package web_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/api"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// world is the pages over a real API over a memory store, with one account.
type world struct {
	testing.TB
	web      *web.Handler
	api      *api.Handler
	store    store.Store
	ids      *store.IDs
	sessions *sessions
	archive  *archive.Archive
	folder   string         // of the archive
	admin    *client.Client // calls the API as an admin
	account  apitypes.Account
	later    time.Duration                           // the store's clock is so far ahead
	paces    map[postrider.EndpointID]postrider.Pace // of the endpoints that this node sends to
}

// Pace implements [circuits.Pacer].
func (w *world) Pace(_ context.Context, id postrider.EndpointID) (postrider.Pace, bool) {
	pace, ok := w.paces[id]
	return pace, ok
}

func newWorld(tb testing.TB, opts web.Options) *world {
	tb.Helper()
	return newWorldWith(tb, opts, api.Options{})
}

func newWorldWith(tb testing.TB, opts web.Options, of api.Options) *world {
	tb.Helper()
	return newWorldOf(tb, opts, of, true)
}

// newWorldOf returns a world with or without an archive.
func newWorldOf(tb testing.TB, opts web.Options, of api.Options, archived bool) *world {
	tb.Helper()
	w := &world{TB: tb, sessions: newSessions(), paces: map[postrider.EndpointID]postrider.Pace{}}
	over := memory.New(memory.Options{Now: func() time.Time { return time.Now().Add(w.later) }})
	w.store, w.ids = over, store.NewIDs(over.Clock().Wall, nil)
	keyring, err := secrets.NewKeyring(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	w.folder = tb.TempDir()
	roles := archive.Store{Archive: over, ArchiveKeys: over, Restored: over, Time: over, Progress: over}
	w.archive = archive.New(archive.Folder(w.folder), roles, secrets.New(keyring), archive.Options{})
	deps := api.Deps{
		Stores: storesOf(over), Clock: over.Clock(), Publisher: &publisher{over, w.ids}, Guard: guard{}, Verifier: receiver{},
		Describer: describer{}, Vault: vault{}, Notifier: deaf{}, Pacer: w, Canceller: deaf{},
		Replayer: replay.New(over, routing.New(over, routing.Options{}), nil, replay.Options{IDs: w.ids}), Expunger: deaf{}, IDs: w.ids,
		Outboxes: noOutboxes{},
	}
	if archived {
		deps.Archive = w.archive
	}
	w.api = api.New(deps, of)
	opts.Log = slog.New(slog.NewTextHandler(tb.Output(), nil))
	w.web = web.New(web.Deps{Deps: page.Deps{
		API: w.api.As, Share: w.api.Share, Sessions: w.sessions, Brand: over,
		Standard: apiendpoints.StandardPolicy(), Now: over.Clock().Wall,
	}, Readers: readers{w.api.Readers()}}, opts)
	web.OnMissingText(w.web, func(key string) { tb.Errorf("there is no text %q", key) })
	w.admin = client.New("http://api.internal", "", client.Options{Attempts: 1, Transport: w.api.As(w.sessions.of["operator"].Caller())})
	account, err := w.admin.CreateAccount(tb.Context(), apitypes.AccountCreate{UID: "acme", Name: "Acme"})
	if err != nil {
		tb.Fatal(err)
	}
	w.account = account
	w.sessions.add("customer", postrider.Caller{Name: "Carla", Account: account.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	return w
}

// response is what a request got, as a browser gets it.
type response struct {
	status int
	header http.Header
	html   string
	cookie []*http.Cookie
}

// as sends a request with the session of a person: operator, customer or nobody.
// A POST has the form.
func (w *world) as(person, route string, form url.Values, cookies ...*http.Cookie) response {
	w.Helper()
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequestWithContext(w.Context(), method, "http://localhost"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: person})
	r.AddCookie(&http.Cookie{Name: "postrider-portal", Value: person})
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return w.send(r)
}

func (w *world) send(r *http.Request) response {
	w.Helper()
	rec := httptest.NewRecorder()
	w.web.ServeHTTP(rec, r)
	return response{rec.Code, rec.Header(), rec.Body.String(), rec.Result().Cookies()}
}

// see sends a GET as a person and ends the test unless it gets a page.
func (w *world) see(person, path string) response {
	w.Helper()
	got := w.as(person, "GET "+path, nil)
	if got.status != http.StatusOK {
		w.Fatalf("GET %s as %s = %d\n%s", path, person, got.status, got.html)
	}
	return got
}

// submit sends a form as a person, and returns the page that the browser is led to.
func (w *world) submit(person, path string, form url.Values) response {
	w.Helper()
	got := w.as(person, "POST "+path, form)
	if got.status != http.StatusSeeOther {
		w.Fatalf("POST %s as %s = %d\n%s", path, person, got.status, got.html)
	}
	to := w.as(person, "GET "+got.header.Get("Location"), nil, got.cookie...)
	if to.status != http.StatusOK {
		w.Fatalf("GET %s after POST %s = %d\n%s", got.header.Get("Location"), path, to.status, to.html)
	}
	return to
}

// endpoint creates an endpoint of the account.
func (w *world) endpoint(e apitypes.EndpointCreate) apitypes.Endpoint {
	w.Helper()
	if e.Account == "" {
		e.Account = w.account.ID.String()
	}
	if e.URL == "" && e.Kind != postrider.KindInspector {
		e.URL = "https://acme.example/hooks"
	}
	if e.EventTypes == nil {
		e.EventTypes = []string{"order.*"}
	}
	created, err := w.admin.CreateEndpoint(w.Context(), e)
	if err != nil {
		w.Fatal(err)
	}
	return created
}

// publish publishes an event of the account.
func (w *world) publish(eventType, data string) apitypes.Receipt {
	w.Helper()
	receipt, err := w.admin.Publish(w.Context(), apitypes.EventCreate{Account: "acme", Type: eventType, Data: json.RawMessage(data)})
	if err != nil {
		w.Fatal(err)
	}
	return receipt
}

// settle attempts what waits for the endpoint, with the answer that the receiver gave.
func (w *world) settle(endpoint postrider.EndpointID, a postrider.Attempt, policy postrider.Policy) {
	w.Helper()
	var wants []store.Want
	for _, lane := range postrider.Lanes {
		wants = append(wants, store.Want{Endpoint: endpoint, Lane: lane, N: 10, Lease: time.Minute})
	}
	claims, err := w.store.Claim(w.Context(), store.Claim{Wants: wants, Token: 1})
	if err != nil || len(claims.Items) == 0 {
		w.Fatalf("claim: %d items, %v", len(claims.Items), err)
	}
	var settlements []store.Settlement
	for _, c := range claims.Items {
		a.Delivery, a.Event, a.Endpoint, a.Number, a.StartedAt = c.ID, c.Event.ID, c.Endpoint, c.Attempt, time.Now().UTC()
		a.Outcome = postrider.Classify(a.StatusCode, 0)
		t := postrider.Settle(c, a, policy)
		a.StatusAfter = t.To
		settlements = append(settlements, store.Settlement{Claimed: c, Attempt: a, Transition: t})
	}
	if _, err := w.store.Settle(w.Context(), settlements); err != nil {
		w.Fatal(err)
	}
}

// sessions has sessions by their tokens, which are the names of people.
type sessions struct {
	from netip.Addr // of the last login
	mu   sync.Mutex
	of   map[string]postrider.Session
	gone map[string]bool // codes and keys that are used up
	fail error           // of Find
}

func newSessions() *sessions {
	s := &sessions{of: map[string]postrider.Session{}, gone: map[string]bool{}}
	s.add("operator", postrider.Caller{Name: "Olga", Scopes: []postrider.Scope{postrider.ScopeAdmin}})
	s.add("viewer", postrider.Caller{Name: "Viktor", Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	return s
}

func (s *sessions) add(token string, c postrider.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := postrider.SessionOperator
	if !c.Account.IsZero() {
		kind = postrider.SessionPortal
	}
	s.of[token] = postrider.Session{
		ID: c.Session, Kind: kind, Key: c.Key, Name: c.Name, Account: c.Account, Scopes: c.Scopes, Options: c.Options,
		ExpiresAt: time.Now().Add(time.Hour),
	}
}

// speak sets the language that the operator chose for a session.
func (s *sessions) speak(token, language string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of[token]
	found.Locale = language
	s.of[token] = found
}

func (s *sessions) Find(_ context.Context, token string) (postrider.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return postrider.Session{}, s.fail
	}
	found, ok := s.of[token]
	if !ok {
		return found, postrider.ErrNotFound
	}
	return found, nil
}

func (s *sessions) Login(ctx context.Context, key string, from netip.Addr) (string, postrider.Session, error) {
	s.mu.Lock()
	s.from = from
	s.mu.Unlock()
	if key == "too often" {
		return "", postrider.Session{}, postrider.ErrTooManyTries
	}
	token := strings.TrimPrefix(key, "key of ")
	found, err := s.Find(ctx, token)
	return token, found, err
}

func (s *sessions) Entry(ctx context.Context, code string) (postrider.Session, error) {
	s.mu.Lock()
	used := s.gone[code]
	s.mu.Unlock()
	if used {
		return postrider.Session{}, postrider.ErrNotFound
	}
	return s.Find(ctx, strings.TrimPrefix(code, "code-of-"))
}

func (s *sessions) Redeem(ctx context.Context, code string, _ netip.Addr) (string, postrider.Session, error) {
	found, err := s.Entry(ctx, code)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[code] = true
	return strings.TrimPrefix(code, "code-of-"), found, err
}

func (s *sessions) Logout(_ context.Context, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, token)
	return nil
}

// publisher stores events with a delivery for each subscribed endpoint.
type publisher struct {
	store store.Store
	ids   *store.IDs
}

func (p *publisher) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	return p.publish(ctx, events, func(e postrider.Event, to postrider.Endpoint) bool {
		return to.Account == e.Account && e.IsFor(&to)
	})
}

func (p *publisher) PublishTo(ctx context.Context, e postrider.Event, only postrider.EndpointID) (postrider.Receipt, error) {
	receipts, err := p.publish(ctx, []postrider.Event{e}, func(_ postrider.Event, to postrider.Endpoint) bool { return to.ID == only })
	if err != nil {
		return postrider.Receipt{}, err
	}
	return receipts[0], nil
}

func (p *publisher) publish(
	ctx context.Context, events []postrider.Event, match func(postrider.Event, postrider.Endpoint) bool,
) ([]postrider.Receipt, error) {
	changes, err := p.store.Changes(ctx, 0, 1000)
	if err != nil {
		return nil, err
	}
	var batch store.Batch
	var receipts []postrider.Receipt
	for _, e := range events {
		if e.ID.IsZero() { // as ingest does
			e.ID = store.NewID[postrider.EventID](p.ids)
		}
		n := store.NewEvent{Event: e, Terms: termsOf(e, changes.Paths[e.Type])}
		for _, to := range changes.Endpoints {
			if match(e, to.Endpoint) {
				d := store.NewDelivery{
					ID: store.NewID[postrider.DeliveryID](p.ids), Endpoint: to.Endpoint.ID, Lane: postrider.LaneFirst, Expiry: to.Endpoint.Policy.Expiry,
				}
				if !to.Endpoint.FullSince.IsZero() {
					d.Skipped = postrider.ReasonBacklogFull
				}
				n.Deliveries = append(n.Deliveries, d)
			}
		}
		batch = append(batch, n)
		receipts = append(receipts, postrider.Receipt{ID: e.ID, Deliveries: len(n.Deliveries)})
	}
	_, err = p.store.Publish(ctx, store.Publish{Version: changes.Version, Batches: []store.Batch{batch}})
	return receipts, err
}

// guard takes https alone.
type guard struct{}

func (guard) CheckURL(raw string) (string, error) {
	if !strings.HasPrefix(raw, "https://") {
		return "", &postrider.InvalidError{Field: "url", Reason: "must be https"}
	}
	return raw, nil
}

func (guard) CheckTLS(postrider.TLS, string) error { return nil }

// receiver wants every event.
type receiver struct{}

func (receiver) Verify(context.Context, store.EndpointSnapshot, string) error { return nil }

// vault keeps texts as they are: what is encrypted is no concern of the pages.
type vault struct{}

func (vault) EncryptSecret(_ context.Context, s *postrider.Secret, text string) error {
	s.Encrypted = []byte(text)
	return nil
}

// finder returns a vault that makes terms, always with the same key.
func finder() *secrets.Vault {
	keyring, err := secrets.Parse([]byte("0123456789abcdef:" + base64.StdEncoding.EncodeToString(make([]byte, 32))))
	if err != nil {
		panic(err)
	}
	return secrets.New(keyring)
}

// termsOf returns the terms of an event whose type has the paths.
func termsOf(e postrider.Event, paths []string) []store.Term {
	var parsed []postrider.Path
	for _, text := range paths {
		path, err := postrider.ParsePath("paths", text)
		if err != nil {
			panic(err)
		}
		parsed = append(parsed, path)
	}
	return finder().EventTerms(&e, parsed)
}

func (vault) Terms(ctx context.Context, account postrider.AccountID, paths []postrider.Path, values []string) ([]store.Term, error) {
	return finder().Terms(ctx, account, paths, values)
}

func (vault) Unsign(text string) ([]byte, error) {
	payload, ok := strings.CutPrefix(text, "signed-")
	if !ok {
		return nil, errors.New("not signed")
	}
	return hex.DecodeString(payload)
}

func (vault) DecryptSecret(_ context.Context, s postrider.Secret) (string, error) {
	return string(s.Encrypted), nil
}

func (vault) EncryptCredentials(_ context.Context, e *postrider.Endpoint, c postrider.Credentials) error {
	text, err := json.Marshal([]any{c.Headers, c.Auth, c.TLSKey})
	e.Credentials = text
	return err
}

func (vault) DecryptCredentials(_ context.Context, e postrider.Endpoint) (c postrider.Credentials, err error) {
	if e.Credentials != nil {
		err = json.Unmarshal(e.Credentials, &[]any{&c.Headers, &c.Auth, &c.TLSKey})
	}
	return c, err
}

type deaf struct{}

func (deaf) Begin(context.Context, postrider.Expunge) error { return nil }

func (deaf) Prepare(context.Context, postrider.Expunge) error { return nil }

func (deaf) Unfinished(context.Context) (int, error) { return 0, nil }

func (deaf) List() string { return "" }

func (deaf) Notify(postrider.EndpointID) {}

func (deaf) CancelDeleted() {}

func (deaf) DeleteEndpoints(context.Context) error { return nil }

// describer describes every request as one with a header that the endpoint's owner chose.
type describer struct{}

func (describer) Describe(_ context.Context, c *postrider.Claimed, e postrider.Endpoint, _ time.Time) (postrider.Request, error) {
	return postrider.Request{
		Method: "POST", URL: e.URL, Body: c.Event.Data,
		Header: []postrider.HeaderField{{Name: "X-Tenant", Value: hostile}, {Name: "Webhook-Signature", Value: postrider.Masked}},
		Signed: []postrider.SignedContent{{Scheme: postrider.SchemeStandard, Header: "Webhook-Signature", Prefix: "evt.1."}},
	}, nil
}

// storesOf returns a store as the API sees it.
func storesOf(s store.Store) api.Stores {
	return api.Stores{
		Names: s, Callers: s, AuditLog: s, Accounts: s, Archives: s, Audit: s, Circuits: s, DeadLetters: s, Deliveries: s,
		Endpoints: s, Events: s, EventTypes: s, Expunges: s, Hold: s, Inspections: s, Keys: s, Notices: s, Operations: s, Portal: s,
		Replays: s, Search: s, Secrets: s, Sessions: s, Sources: s, Stats: s, Values: s, WhatIfs: s,
	}
}
