package api_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is an API over a memory store, with an admin's key.
type world struct {
	testing.TB
	handler   http.Handler
	store     store.Store
	ids       *store.IDs
	publisher *publisher
	receiver  *receiver
	admin     string
	log       *buffer
	producer  string // address of the databases of sources; empty: they cannot be reached
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return newWorldOf(tb, api.Options{})
}

func newWorldOf(tb testing.TB, opts api.Options) *world {
	tb.Helper()
	return newWorldOver(tb, memory.New(memory.Options{}), opts)
}

// newWorldOver returns an API over a store, with an admin's key.
func newWorldOver(tb testing.TB, over store.Store, opts api.Options) *world {
	tb.Helper()
	return newWorldWith(tb, over, nil, opts)
}

// newWorldWith returns an API over a store and an archive; nil: there is none.
func newWorldWith(tb testing.TB, over store.Store, archive api.Archive, opts api.Options) *world {
	tb.Helper()
	w := &world{TB: tb, store: over, ids: store.NewIDs(over.Clock().Wall, nil), log: new(buffer), receiver: new(receiver)}
	w.publisher = &publisher{store: w.store, ids: w.ids}
	opts.Log = slog.New(slog.NewJSONHandler(w.log, nil))
	roles := expunge.Store{Expunges: over, Ledger: over, Directory: over, Archived: over, Audit: over, Time: over}
	w.handler = api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: w.publisher, Guard: guard{}, Verifier: w.receiver, Describer: describer{},
		Vault: vault{}, Notifier: deaf{}, Canceller: deaf{}, Replayer: replayer(over, w.ids),
		Expunger: expunge.New(roles, expunge.Options{}), Archive: archive,
		IDs: w.ids, Outboxes: w, Sources: deaf{},
	}, opts)
	w.admin = w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeAdmin}})
	return w
}

// replayer returns a runner that runs no jobs.
func replayer(over store.Store, ids *store.IDs) *replay.Runner {
	return replay.New(over, routing.New(over, routing.Options{}), nil, replay.Options{IDs: ids})
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	t.Helper()
	sub := *w
	sub.TB = t
	return &sub
}

// key stores a key and returns its text.
func (w *world) key(k postrider.APIKey) string {
	w.Helper()
	text, hash := apikeys.Make()
	k.ID, k.Hash, k.Name, k.CreatedAt = store.NewID[postrider.KeyID](w.ids), hash, "test", time.Now().UTC()
	if err := w.store.PutKey(w.Context(), k); err != nil {
		w.Fatal(err)
	}
	return text
}

// response is a response with its body as decoded JSON.
type response struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// do sends a request. A body that is not empty is JSON.
func (w *world) do(key, route, body string) response {
	w.Helper()
	return w.send(w.request(key, route, body))
}

func (w *world) request(key, route, body string) *http.Request {
	w.Helper()
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequestWithContext(w.Context(), method, "/v1/webhooks"+path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (w *world) send(r *http.Request) response {
	w.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	got := response{status: rec.Code, header: rec.Header(), text: rec.Body.String()}
	if got.text != "" {
		if err := json.Unmarshal([]byte(got.text), &got.body); err != nil {
			w.Fatalf("%s %s answers no JSON object: %q", r.Method, r.URL, got.text)
		}
	}
	if code, problem := got.body["code"].(string); problem && r.Pattern != "" && !described(w).has(r.Pattern, got.status, code) {
		w.Errorf("%s answers %d %s; the document does not say so", r.Pattern, got.status, code)
	}
	return got
}

// problems are the problems that the document has, by "METHOD /path".
type problems map[string][]string

// has reports whether the document has a problem, or does not have the route.
func (p problems) has(route string, status int, code string) bool {
	codes, there := p[route]
	return !there || slices.Contains(codes, fmt.Sprint(status, " ", code))
}

var documented struct {
	once sync.Once
	problems
}

// described returns the problems of every operation of the document.
func described(tb testing.TB) problems {
	tb.Helper()
	documented.once.Do(func() {
		var document struct {
			Paths map[string]map[string]struct {
				Responses map[string]struct {
					Ref string `json:"$ref"`
				}
			}
			Components struct {
				Responses map[string]struct {
					Codes []string `json:"x-codes"`
				}
			}
		}
		rec := httptest.NewRecorder()
		api.New(api.Deps{}, api.Options{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/webhooks/openapi.json", nil))
		if err := json.Unmarshal(rec.Body.Bytes(), &document); err != nil {
			tb.Fatal(err)
		}
		documented.problems = problems{}
		for path, methods := range document.Paths {
			for method, op := range methods {
				route := strings.ToUpper(method) + " " + path
				for status, response := range op.Responses {
					for _, code := range document.Components.Responses[strings.TrimPrefix(response.Ref, "#/components/responses/")].Codes {
						documented.problems[route] = append(documented.problems[route], status+" "+code)
					}
				}
			}
		}
	})
	return documented.problems
}

// want sends a request as the admin and ends the test unless it answers with
// the status.
func (w *world) want(status int, route, body string) response {
	w.Helper()
	got := w.do(w.admin, route, body)
	if got.status != status {
		w.Fatalf("%s %s = %d %s, want %d", route, body, got.status, got.text, status)
	}
	return got
}

// id returns a text of the answer by its name.
func (r response) id(name string) string {
	text, _ := r.body[name].(string)
	return text
}

// data returns the items of a list.
func (r response) data() []map[string]any {
	items, _ := r.body["data"].([]any)
	objects := make([]map[string]any, 0, len(items))
	for _, item := range items {
		object, _ := item.(map[string]any)
		objects = append(objects, object)
	}
	return objects
}

// fields returns the fields at fault.
func (r response) fields() []string {
	var fields []string
	faults, _ := r.body["errors"].([]any)
	for _, f := range faults {
		object, _ := f.(map[string]any)
		field, _ := object["field"].(string)
		fields = append(fields, field)
	}
	return fields
}

// tenant is an account with one object of each kind.
type tenant struct {
	account, uid, endpoint, event, delivery string
}

func (w *world) tenant(uid string) tenant {
	w.Helper()
	a := w.want(201, "POST /accounts", `{"uid": "`+uid+`", "name": "Tenant"}`)
	e := w.want(201, "POST /endpoints", `{"account": "`+uid+`", "url": "https://`+uid+`.example/hooks", "event_types": ["order.*"]}`)
	p := w.want(202, "POST /events", `{"account": "`+uid+`", "type": "order.created", "data": {"order_id": 42}}`)
	d := w.want(200, "GET /events/"+p.id("id")+"/deliveries", "")
	return tenant{a.id("id"), uid, e.id("id"), p.id("id"), d.data()[0]["id"].(string)}
}

// settle settles the waiting deliveries of the endpoint with the given attempt.
func (w *world) settle(endpoint string, a postrider.Attempt) {
	w.Helper()
	id, err := postrider.ParseID[postrider.EndpointID](endpoint)
	if err != nil {
		w.Fatal(err)
	}
	var wants []store.Want
	for _, lane := range postrider.Lanes {
		wants = append(wants, store.Want{Endpoint: id, Lane: lane, N: 10, Lease: time.Minute})
	}
	claims, err := w.store.Claim(w.Context(), store.Claim{Wants: wants, Token: 1})
	if err != nil || len(claims.Items) == 0 {
		w.Fatalf("claim: %d items, %v", len(claims.Items), err)
	}
	var settlements []store.Settlement
	for _, c := range claims.Items {
		a.Delivery, a.Event, a.Endpoint, a.Number, a.StartedAt = c.ID, c.Event.ID, c.Endpoint, c.Attempt, time.Now().UTC()
		a.Outcome = postrider.Classify(a.StatusCode, 0)
		t := postrider.Settle(c, a, postrider.DefaultPolicy())
		a.StatusAfter = t.To
		settlements = append(settlements, store.Settlement{Claimed: c, Attempt: a, Transition: t})
	}
	if _, err := w.store.Settle(w.Context(), settlements); err != nil {
		w.Fatal(err)
	}
}

// publisher stores events with the deliveries of the subscribed endpoints. It fails if the test
// tells it to.
type publisher struct {
	store store.Store
	ids   *store.IDs

	// Whether events get the terms of the data {"a": "x"} instead of their own.
	confuse atomic.Bool

	mu  sync.Mutex
	err error
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *publisher) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	for {
		receipts, err := p.try(ctx, events, func(e postrider.Event, to postrider.Endpoint) bool {
			return to.Account == e.Account && e.IsFor(&to)
		})
		if !errors.Is(err, store.ErrMoved) {
			return receipts, err
		}
	}
}

func (p *publisher) PublishTo(ctx context.Context, e postrider.Event, only postrider.EndpointID) (postrider.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return postrider.Receipt{}, p.err
	}
	receipts, err := p.try(ctx, []postrider.Event{e}, func(_ postrider.Event, to postrider.Endpoint) bool { return to.ID == only })
	if err != nil {
		return postrider.Receipt{}, err
	}
	return receipts[0], nil
}

func (p *publisher) try(
	ctx context.Context, events []postrider.Event, match func(postrider.Event, postrider.Endpoint) bool,
) ([]postrider.Receipt, error) {
	changes, err := p.store.Changes(ctx, 0, 1000)
	if err != nil {
		return nil, err
	}
	var batch store.Batch
	for _, e := range events {
		if e.ID.IsZero() { // as ingest does
			e.ID = store.NewID[postrider.EventID](p.ids)
		}
		indexed := e
		if p.confuse.Load() {
			indexed.Data = []byte(`{"a": "x"}`)
		}
		n := store.NewEvent{Event: e, Terms: termsOf(indexed, changes.Paths[e.Type])}
		for _, to := range changes.Endpoints {
			if match(e, to.Endpoint) {
				d := p.delivery(to.Endpoint)
				if e.OrderingKey != "" && to.Endpoint.Policy.Order == postrider.OrderByKey {
					d.Ordered = to.Endpoint.Policy.OnDead
				}
				n.Deliveries = append(n.Deliveries, d)
			}
		}
		batch = append(batch, n)
	}
	answers, err := p.store.Publish(ctx, store.Publish{Version: changes.Version, Batches: []store.Batch{batch}})
	if err != nil {
		return nil, err
	}
	if answers[0].Conflict >= 0 {
		return nil, &postrider.KeyTakenError{Index: answers[0].Conflict}
	}
	receipts := make([]postrider.Receipt, len(batch))
	for i, got := range answers[0].Events {
		receipts[i] = postrider.Receipt{ID: got.ID, Duplicate: got.Duplicate, Deliveries: len(batch[i].Deliveries)}
		if got.Duplicate {
			receipts[i].Deliveries = 0
		}
	}
	return receipts, nil
}

func (p *publisher) delivery(to postrider.Endpoint) store.NewDelivery {
	d := store.NewDelivery{
		ID: store.NewID[postrider.DeliveryID](p.ids), Endpoint: to.ID, Lane: postrider.LaneFirst, Expiry: to.Policy.Expiry,
	}
	if to.Status == postrider.EndpointDisabled {
		d.Skipped = postrider.ReasonEndpointDisabled
	}
	return d
}

// guard accepts only https URLs.
type guard struct{}

func (guard) CheckURL(raw string) (string, error) {
	if !strings.HasPrefix(raw, "https://") {
		return "", &postrider.InvalidError{Field: "url", Reason: "must be https"}
	}
	return raw, nil
}

// CheckTLS accepts texts that begin like PEM.
func (guard) CheckTLS(t postrider.TLS, key string) error {
	for field, text := range map[string]string{"tls.certificate": t.Certificate, "tls.key": key, "tls.authorities": t.Authorities} {
		if text != "" && !strings.HasPrefix(text, "-----BEGIN ") {
			return &postrider.InvalidError{Field: field, Reason: "must be PEM"}
		}
	}
	return nil
}

// receiver notes the handshakes that it gets, and responds to them.
type receiver struct {
	mu     sync.Mutex
	asked  []string // method and URL
	answer error
	then   func() // called before it answers
}

func (r *receiver) Verify(_ context.Context, to store.EndpointSnapshot, method string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, method+" "+to.Endpoint.URL)
	if r.then != nil {
		r.then()
	}
	return r.answer
}

// describer describes requests as package webhook does, with one scheme.
type describer struct{}

// Describe returns the request.
func (describer) Describe(_ context.Context, c *postrider.Claimed, e postrider.Endpoint, at time.Time) (postrider.Request, error) {
	if e.PolicyError != "" {
		return postrider.Request{}, &postrider.FailureError{Failure: postrider.FailureUnsigned}
	}
	return postrider.Request{
		Method: "POST", URL: e.URL, Body: c.Event.Data,
		Header: []postrider.HeaderField{{Name: "Webhook-Id", Value: c.Event.ID.String()}, {Name: "Webhook-Signature", Value: postrider.Masked}},
		Signed: []postrider.SignedContent{{
			Scheme: postrider.SchemeStandard, Header: "Webhook-Signature",
			Prefix: fmt.Sprintf("%s.%d.", c.Event.ID, at.Unix()),
		}},
	}, nil
}

// vault reverses texts instead of encrypting them, and binds each text to its owner.
type vault struct{}

func (vault) EncryptSecret(_ context.Context, s *postrider.Secret, text string) error {
	s.Encrypted = reverse(s.ID.String(), text)
	return nil
}

func (vault) DecryptSecret(_ context.Context, s postrider.Secret) (string, error) {
	return reversed(s.ID.String(), s.Encrypted)
}

func (vault) EncryptCredentials(_ context.Context, e *postrider.Endpoint, c postrider.Credentials) error {
	e.Credentials = nil
	if len(c.Headers) == 0 && c.Auth == "" && c.TLSKey == "" {
		return nil
	}
	text, err := json.Marshal([]any{c.Headers, c.Auth, c.TLSKey})
	e.Credentials = reverse(e.ID.String(), string(text))
	return err
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

func (vault) EncryptSource(_ context.Context, s *postrider.Source, password string) error {
	if s.Password = nil; password != "" {
		s.Password = reverse(s.ID.String(), password)
	}
	return nil
}

func (vault) Unsign(text string) ([]byte, error) {
	payload, ok := strings.CutPrefix(text, "signed-")
	if !ok {
		return nil, errors.New("not signed")
	}
	return hex.DecodeString(payload)
}

func (vault) DecryptCredentials(_ context.Context, e postrider.Endpoint) (c postrider.Credentials, err error) {
	if e.Credentials == nil {
		return c, nil
	}
	text, err := reversed(e.ID.String(), e.Credentials)
	if err == nil {
		err = json.Unmarshal([]byte(text), &[]any{&c.Headers, &c.Auth, &c.TLSKey})
	}
	return c, err
}

func reverse(id, text string) []byte {
	encrypted := []byte(id + text)
	slices.Reverse(encrypted)
	return encrypted
}

func reversed(id string, encrypted []byte) (string, error) {
	open := slices.Clone(encrypted)
	slices.Reverse(open)
	text, ok := strings.CutPrefix(string(open), id)
	if !ok {
		return "", errors.New("it is encrypted for another row")
	}
	return text, nil
}

type deaf struct{}

func (deaf) Notify(postrider.EndpointID) {}

func (deaf) CancelDeleted() {}

func (deaf) DeleteEndpoints(context.Context) error { return nil }
func (deaf) Wake()                                 {}

func (deaf) Undelivered(context.Context, postrider.ReplayJob) (store.ReplayMatches, error) {
	return store.ReplayMatches{}, errors.New("no replay runs here")
}

// buffer is a log that a test may read while it is written.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// body returns a request whose body comes from the reader.
func (w *world) body(key, route string, reader io.Reader) *http.Request {
	w.Helper()
	r := w.request(key, route, "{}")
	r.Body, r.ContentLength = io.NopCloser(reader), -1
	return r
}

// storesOf returns the store as the interfaces that the API needs.
func storesOf(s store.Store) api.Stores {
	return api.Stores{
		Names: s, Callers: s, AuditLog: s, Accounts: s, Archives: s, Audit: s, Circuits: s, DeadLetters: s, Deliveries: s,
		Endpoints: s, Events: s, EventTypes: s, Expunges: s, Hold: s, Inspections: s, Keys: s, Notices: s, Operations: s, Portal: s,
		Replays: s, Search: s, Secrets: s, Sessions: s, Sources: s, Stats: s, Values: s, WhatIfs: s,
	}
}
