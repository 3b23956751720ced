package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// Model plays random histories of verbs on the store and on package memory. Everything that a
// caller can see must be the same in both: results, kinds of error, and lists.
//
// Time must not matter. So no wait and no lease ends during a history, and the times that the
// stores return are not compared. All histories share the one store that open returns; every
// history has accounts of its own.
//
// The second subtest plays histories of a few ordering keys. It compares nothing with package
// memory, and checks the order of the deliveries itself.
func Model(t *testing.T, open func(*testing.T) store.Store) {
	t.Run("agree", func(t *testing.T) { agreeWithModel(t, open) })
	t.Run("keep order", func(t *testing.T) { keepOrder(t, open) })
}

func agreeWithModel(t *testing.T, open func(*testing.T) store.Store) {
	t.Helper()
	tested := open(t)
	ids := store.NewIDs(ticking(), new([32]byte))
	rapid.Check(t, func(t *rapid.T) {
		h := &history{T: t, model: memory.New(memory.Options{Now: ticking()}), tested: tested, ids: ids, start: map[store.Store]int64{}}
		h.ordered = map[postrider.DeliveryID]postrider.OnDead{}
		h.begin()
		actions := map[string]func(*rapid.T){}
		for name, play := range moves {
			actions[name] = func(t *rapid.T) {
				h.T = t
				play(h)
			}
		}
		t.Repeat(actions)
		h.T = t
		h.look()
	})
}

var moves = map[string]func(*history){
	"publish":       (*history).publish,
	"publish again": (*history).publishAgain,
	"claim":         (*history).claim,
	"claim more":    (*history).claim, // twice as likely, because little happens without claims
	"settle":        (*history).settle,
	"settle more":   (*history).settle,
	"settle again":  (*history).settleAgain,
	"release":       (*history).release,
	"fan out":       (*history).fanOut,
	"endpoint":      (*history).endpoint,
	"rotate":        (*history).rotate,
	"revoke":        (*history).revoke,
	"reencrypt":     (*history).reencrypt,
	"replay":        (*history).replay,
	"cancel":        (*history).cancel,
	"make due":      (*history).makeDue,
	"discard":       (*history).discard,
	"replay job":    (*history).createReplayJob,
	"run job":       (*history).runReplayJob,
	"run job more":  (*history).runReplayJob,
	"set job":       (*history).setReplayJob,
	"circuit":       (*history).circuit,
	"health":        (*history).health,
	"keep up":       (*history).keepUp,
	"look":          (*history).look,
}

// ticking returns a clock that moves on by a millisecond each time it is read.
func ticking() func() time.Time {
	now := time.Now().UTC()
	return func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}
}

// history is one random history, with the objects that later steps can use.
type history struct {
	*rapid.T
	model, tested store.Store
	ids           *store.IDs
	tokens        postrider.Token
	start         map[store.Store]int64 // the version of each store when the history began

	accounts  []postrider.AccountID
	endpoints []postrider.Endpoint // as they were last stored
	published [][]store.Batch
	claims    []postrider.Claimed // leases that were neither settled nor released
	settled   []store.Settlement
	released  []postrider.DeliveryID
	jobs      []store.FanOut

	replayJobs []*jobPlay
	ordered    map[postrider.DeliveryID]postrider.OnDead // deliveries that have a position in their ordering key
}

// observable are the options by which the results of both stores are compared.
var observable = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() }),
	cmpopts.IgnoreFields(store.LaneState{}, "Waiting", "In", "Low"),
	cmpopts.IgnoreFields(postrider.Delivery{}, "NextAttemptAt", "Waiting"), // depends on when the list is read
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".In" },
		cmp.Comparer(func(a, b time.Duration) bool { return (a > 0) == (b > 0) })),
}

// both makes a call on both stores and compares the results, which must be equal. It returns the
// result of the model.
func both[R any](h *history, what string, call func(store.Store) (R, error)) (R, bool) {
	h.Helper()
	want, wantErr := call(h.model)
	got, gotErr := call(h.tested)
	if kind(wantErr) != kind(gotErr) {
		h.Fatalf("%s: error = %v, the model's is %v", what, gotErr, wantErr)
	}
	if diff := cmp.Diff(want, got, observable); wantErr == nil && diff != "" {
		h.Fatalf("%s (-model +store):\n%s", what, diff)
	}
	return want, wantErr == nil
}

// kind returns the property by which callers tell errors apart.
func kind(err error) string {
	if pending, ok := errors.AsType[*store.ReplayPendingError](err); ok {
		return pending.Error()
	}
	for _, kind := range []error{
		store.ErrMoved, postrider.ErrNotFound, postrider.ErrInvalid, postrider.ErrConflict, postrider.ErrGone,
		postrider.ErrBusy, postrider.ErrFenced,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return fmt.Sprint(err)
}

// only converts a call without a result into one with an empty result.
func only(call func(store.Store) error) func(store.Store) (struct{}, error) {
	return func(s store.Store) (struct{}, error) { return struct{}{}, call(s) }
}

// pick draws an element of a list by its index. A failing history prints the index.
func pick[T any](h *history, what string, from ...T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(h.T, what)]
}

func (h *history) upTo(what string, most int) int { return rapid.IntRange(1, most).Draw(h.T, what) }

func (h *history) token() postrider.Token {
	h.tokens++
	return 7<<32 | h.tokens
}

func (h *history) version(s store.Store) int64 {
	h.Helper()
	version := h.start[s]
	for {
		c, err := s.Changes(h.Context(), version, 1000)
		if err != nil {
			h.Fatalf("changes: %v", err)
		}
		if len(c.Endpoints) == 0 {
			return c.Version
		}
		version = c.Version
	}
}

// begin stores two accounts with two endpoints each.
func (h *history) begin() {
	for range 2 {
		a := postrider.Account{ID: store.NewID[postrider.AccountID](h.ids), Name: "Acme Inc."}
		h.accounts = append(h.accounts, a.ID)
		both(h, "put account", only(func(s store.Store) error { return s.PutAccount(h.Context(), a) }))
		h.put(h.draft(a.ID))
		h.put(h.draft(a.ID))
	}
	for _, s := range []store.Store{h.model, h.tested} {
		h.start[s] = h.version(s)
	}
}

func (h *history) draft(account postrider.AccountID) postrider.Endpoint {
	return postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](h.ids), Account: account, URL: "https://acme.example/hooks",
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
}

func (h *history) secret(e postrider.EndpointID) postrider.Secret {
	id := store.NewID[postrider.SecretID](h.ids)
	return postrider.Secret{
		ID: id, Endpoint: e, Encrypted: slices.Concat(id[:], id[:]), Public: pick(h, "public key", "", "whpk_key"), CreatedAt: id.Time(),
	}
}

func (h *history) put(e postrider.Endpoint) {
	h.Helper()
	secrets := []postrider.Secret{h.secret(e.ID)}
	stored, ok := both(h, "put endpoint", func(s store.Store) (postrider.Endpoint, error) {
		return s.PutEndpoint(h.Context(), store.PutEndpoint{Endpoint: e, Secrets: secrets})
	})
	if !ok {
		return
	}
	h.endpoints = append(slices.DeleteFunc(h.endpoints, func(old postrider.Endpoint) bool { return old.ID == e.ID }), stored)
}

func (h *history) endpoint() {
	if len(h.endpoints) < 8 && rapid.Bool().Draw(h.T, "create") {
		e := h.draft(pick(h, "account", h.accounts...))
		e.UID = pick(h, "uid", "", "main", "other")
		h.put(e)
		return
	}
	e := pick(h, "endpoint", h.endpoints...)
	e.UID = pick(h, "uid", "", "main", "other")
	e.Metadata = pick(h, "metadata", nil, postrider.Metadata{"plan": "gold"})
	e.Credentials = pick(h, "credentials", nil, e.Credentials, e.ID[:])
	e.VerifiedAt = pick(h, "verified", time.Time{}, e.ID.Time())
	if e.Revision > 1 {
		e.Revision -= pick(h, "revisions behind", int64(0), 0, 0, 1)
	}
	e.Account = pick(h, "account", e.Account, e.Account, e.Account, h.accounts[0])
	e.Status = pick(h, "status", postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled, postrider.EndpointDeleted)
	h.put(e)
}

func (h *history) rotate() {
	r := store.RotateSecret{Secret: h.secret(pick(h, "endpoint", h.endpoints...).ID), Overlap: long}
	for _, e := range h.endpoints {
		if e.ID == r.Secret.Endpoint && e.Status == postrider.EndpointDeleted {
			return // the contract does not define this case
		}
	}
	both(h, "rotate secret", only(func(s store.Store) error { return s.RotateSecret(h.Context(), r) }))
}

// revoke ends a secret of an endpoint. The secret may be the last one, or belong to another
// endpoint.
func (h *history) revoke() {
	e, of := pick(h, "endpoint", h.endpoints...), pick(h, "endpoint of the secret", h.endpoints...)
	secrets := append(lastOf(h.model.Secrets(h.Context(), of.ID)), h.secret(e.ID))
	r := store.RevokeSecret{Endpoint: e.ID, Secret: pick(h, "secret", secrets...).ID}
	both(h, "revoke secret", only(func(s store.Store) error { return s.RevokeSecret(h.Context(), r) }))
}

// reencrypt replaces some encrypted values. Some of them have changed since they were listed.
func (h *history) reencrypt() {
	var list []store.Reencryption
	for _, encrypted := range lastOf(h.model.EncryptedValues(h.Context(), store.EncryptedID{}, 1000)) {
		r := store.Reencryption{ID: encrypted.ID, Old: encrypted.Bytes, New: slices.Concat(encrypted.Bytes, []byte{1})}
		switch h.upTo("kind of reencrypt", 3) {
		case 1:
			continue
		case 2:
			r.Old = []byte("another")
		}
		list = append(list, r)
	}
	both(h, "reencrypt", func(s store.Store) (int, error) { return s.Reencrypt(h.Context(), list) })
}

// keepUp does one of the janitor's tasks until nothing is left. Other histories may have left
// work in the store under test, so the counts are not compared.
func (h *history) keepUp() {
	work := pick(h, "work",
		func(s store.Store) (int, error) {
			n, _, err := s.Expire(h.Context(), 100)
			return n, err
		},
		func(s store.Store) (int, error) {
			n, _, err := s.CancelDeleted(h.Context(), 100)
			return n, err
		},
		func(s store.Store) (int, error) {
			h.published = nil // a publish that is repeated after its keys were deleted may have another result
			return s.ForgetKeys(h.Context(), 0, 100)
		})
	both(h, "keep up", only(func(s store.Store) error {
		for {
			if n, err := work(s); n == 0 || err != nil {
				return err
			}
		}
	}))
}

// look reads every list of the accounts.
func (h *history) look() {
	for _, account := range h.accounts {
		p := store.Paging{Limit: pick(h, "limit", 2, 10, store.MaxLimit)}
		agree(h, "events", p, func(s store.Store, p store.Paging) (store.Page[postrider.Event], error) {
			return s.Events(h.Context(), store.EventQuery{Account: account, Paging: p})
		})
		agree(h, "dead letters", p, func(s store.Store, p store.Paging) (store.Page[postrider.DeadLetter], error) {
			return s.DeadLetters(h.Context(), store.DeadLetterQuery{Account: account, Resolved: true, Paging: p})
		})
		agree(h, "endpoints", p, func(s store.Store, p store.Paging) (store.Page[postrider.Endpoint], error) {
			return s.Endpoints(h.Context(), store.EndpointQuery{Account: account, Paging: p})
		})
		for _, status := range append([]postrider.Status{""}, postrider.Statuses...) {
			agree(h, "deliveries "+string(status), p, func(s store.Store, p store.Paging) (store.Page[postrider.Delivery], error) {
				return s.Deliveries(h.Context(), store.DeliveryQuery{Account: account, Status: status, Paging: p})
			})
		}
		for _, e := range h.endpoints {
			if e.Account == account && e.Status != postrider.EndpointDeleted {
				h.lookAtEndpoint(e, p)
			}
		}
		h.lookAtCounts(store.RollupQuery{Account: account})
		for _, d := range h.deliveries(account) {
			agree(h, "attempts", p, func(s store.Store, p store.Paging) (store.Page[postrider.Attempt], error) {
				return s.Attempts(h.Context(), store.AttemptQuery{Account: account, Delivery: d.ID, Paging: p})
			})
		}
	}
	h.lookAtReplayJobs(store.Paging{Limit: pick(h, "limit", 2, store.MaxLimit)})
	h.lookAtWork()
}

// lookAtCounts folds the deltas, and compares the sum of the counts of these days, in whatever
// minutes they were counted.
func (h *history) lookAtCounts(q store.RollupQuery) {
	h.Helper()
	both(h, "counts", func(s store.Store) (sum postrider.Counts, err error) {
		if _, err := s.FoldRollups(h.Context(), store.Fold{Deltas: 1 << 20}); err != nil {
			return sum, err
		}
		now, err := s.Now(h.Context())
		if err != nil {
			return sum, err
		}
		q.Step, q.From, q.To = store.Hours, now.AddDate(0, 0, -2), now.AddDate(0, 0, 2)
		rollups, err := s.Rollups(h.Context(), q)
		for _, r := range rollups {
			sum.Add(r.Counts)
		}
		return sum, err
	})
}

func (h *history) lookAtEndpoint(e postrider.Endpoint, p store.Paging) {
	h.Helper()
	h.lookAtCounts(store.RollupQuery{Endpoint: e.ID, Type: pick(h, "type", "", "order.created", "order.paid")})
	agree(h, "ordered keys", p, func(s store.Store, p store.Paging) (store.Page[store.OrderedKey], error) {
		return s.OrderedKeys(h.Context(), store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
	})
	agree(h, "public keys", p, func(s store.Store, p store.Paging) (store.Page[postrider.Secret], error) {
		return s.PublicKeys(h.Context(), store.PublicKeyQuery{Endpoint: e.ID, Paging: p})
	})
	agree(h, "history", p, func(s store.Store, p store.Paging) (store.Page[postrider.EndpointHealth], error) {
		return s.HealthHistory(h.Context(), store.HealthQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
	})
}

// agree reads a list of both stores to its end, compares both, and returns the list.
func agree[T any](h *history, what string, p store.Paging, list func(store.Store, store.Paging) (store.Page[T], error)) []T {
	h.Helper()
	all, _ := both(h, what, func(s store.Store) (all []T, err error) {
		p := p
		for {
			page, err := list(s, p)
			if err != nil || page.Next == "" {
				return append(all, page.Items...), err
			}
			all, p.Cursor = append(all, page.Items...), page.Next
		}
	})
	return all
}

// lookAtWork reads what workers and routers need.
func (h *history) lookAtWork() {
	mine := func(id postrider.EndpointID) bool {
		return slices.ContainsFunc(h.endpoints, func(e postrider.Endpoint) bool { return e.ID == id })
	}
	both(h, "due", func(s store.Store) ([]store.DueLane, error) {
		lanes, err := s.Due(h.Context(), store.Due{Max: 10_000})
		lanes = slices.DeleteFunc(lanes, func(l store.DueLane) bool { return !mine(l.Endpoint) })
		slices.SortStableFunc(lanes, func(a, b store.DueLane) int {
			if order := a.Endpoint.Compare(b.Endpoint); order != 0 {
				return order
			}
			return strings.Compare(string(a.Lane), string(b.Lane))
		})
		return lanes, err
	})
	both(h, "changes", func(s store.Store) (store.Changes, error) {
		c, err := s.Changes(h.Context(), h.start[s], 1000)
		c.Version -= h.start[s]
		return c, err
	})
	before := postrider.EndpointID(h.accounts[0]) // lower than the id of every endpoint of this history
	both(h, "circuits", func(s store.Store) ([]postrider.Circuit, error) {
		return s.Circuits(h.Context(), store.CircuitQuery{After: before, Limit: 1000})
	})
	both(h, "encrypted values", func(s store.Store) ([]store.EncryptedValue, error) {
		return s.EncryptedValues(h.Context(), store.EncryptedID{Endpoint: before}, 1000)
	})
	both(h, "health inputs", func(s store.Store) ([]postrider.HealthInput, error) {
		if _, err := s.FoldRollups(h.Context(), store.Fold{Deltas: 1 << 20}); err != nil {
			return nil, err
		}
		inputs, err := s.HealthInputs(h.Context(), before, 1000)
		for i := range inputs {
			if inputs[i].Health.Status == postrider.Healthy { // the stores may have counted the deliveries in different minutes
				inputs[i].Delivered, inputs[i].Dead = 0, 0
			}
		}
		return inputs, err
	})
}

// deliveries returns all deliveries of an account in the model.
func (h *history) deliveries(account postrider.AccountID) []postrider.Delivery {
	h.Helper()
	page, err := h.model.Deliveries(h.Context(), store.DeliveryQuery{Account: account, Paging: store.Paging{Limit: store.MaxLimit}})
	if err != nil {
		h.Fatalf("deliveries of the model: %v", err)
	}
	return page.Items
}
