package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// orders is one history of a few ordering keys at one endpoint. It checks these rules: at most
// one delivery of a key is under way, and none while the key is paused; deliveries succeed in the
// order of their sequences; and at the end nothing is stuck.
type orders struct {
	*rapid.T
	tested   store.Store
	ids      *store.IDs
	tokens   postrider.Token
	endpoint postrider.Endpoint

	known  []postrider.DeliveryID
	claims []postrider.Claimed // leases of the attempts under way
	last   map[string]int64    // the sequence of the last success, by key
}

// keepOrder plays random histories of ordered deliveries.
func keepOrder(t *testing.T, open func(*testing.T) store.Store) {
	t.Helper()
	tested := open(t)
	ids := store.NewIDs(tested.Clock().Wall, new([32]byte))
	rapid.Check(t, func(t *rapid.T) {
		o := &orders{T: t, tested: tested, ids: ids, last: map[string]int64{}}
		o.begin()
		actions := map[string]func(*rapid.T){}
		for name, play := range orderMoves {
			actions[name] = func(t *rapid.T) {
				o.T = t
				play(o)
			}
		}
		t.Repeat(actions)
		o.T = t
		o.finish()
	})
}

var orderMoves = map[string]func(*orders){
	"publish":      (*orders).publish,
	"publish more": (*orders).publish,
	"claim":        (*orders).claim,
	"claim more":   (*orders).claim,
	"settle":       (*orders).settle,
	"settle more":  (*orders).settle,
	"expire":       (*orders).expire,
	"cancel":       (*orders).cancel,
	"go on":        func(o *orders) { o.goOn(rapid.Bool().Draw(o.T, "replay")) },
}

func (o *orders) ok(err error) {
	o.Helper()
	if err != nil {
		o.Fatalf("unexpected error: %v", err)
	}
}

func (o *orders) begin() {
	a := postrider.Account{ID: store.NewID[postrider.AccountID](o.ids), Name: "Acme Inc."}
	o.ok(o.tested.PutAccount(o.Context(), a))
	e, err := o.tested.PutEndpoint(o.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](o.ids), Account: a.ID, URL: "https://acme.example/hooks",
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	o.ok(err)
	o.endpoint = e
}

func (o *orders) publish() {
	c, err := o.tested.Changes(o.Context(), 0, 1<<20)
	o.ok(err)
	var batch store.Batch
	for range rapid.IntRange(1, 3).Draw(o.T, "events") {
		d := store.NewDelivery{
			ID: store.NewID[postrider.DeliveryID](o.ids), Endpoint: o.endpoint.ID,
			Lane:    rapid.SampledFrom([]postrider.Lane{postrider.LaneFirst, postrider.LaneBulk}).Draw(o.T, "lane"),
			Expiry:  rapid.SampledFrom([]time.Duration{long, long, long, 0}).Draw(o.T, "expiry"),
			Ordered: rapid.SampledFrom([]postrider.OnDead{postrider.SkipDead, postrider.PauseOnDead}).Draw(o.T, "on dead"),
		}
		o.known = append(o.known, d.ID)
		batch = append(batch, store.NewEvent{
			Event: postrider.Event{
				ID: store.NewID[postrider.EventID](o.ids), Account: o.endpoint.Account, Type: "order.created", Data: []byte("1"),
				OrderingKey: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(o.T, "key"),
			},
			Deliveries: []store.NewDelivery{d},
		})
	}
	_, err = o.tested.Publish(o.Context(), store.Publish{Version: c.Version, Batches: []store.Batch{batch}})
	o.ok(err)
}

// keys returns the state of each ordering key, by key.
func (o *orders) keys() map[string]store.OrderedKey {
	o.Helper()
	page, err := o.tested.OrderedKeys(o.Context(), store.OrderedKeyQuery{Account: o.endpoint.Account, Endpoint: o.endpoint.ID})
	o.ok(err)
	keys := map[string]store.OrderedKey{}
	for _, key := range page.Items {
		keys[key.Key] = key
	}
	return keys
}

func (o *orders) claim() {
	o.Helper()
	o.tokens++
	c := store.Claim{Token: 7<<32 | o.tokens}
	for _, lane := range postrider.Lanes {
		c.Wants = append(c.Wants, store.Want{Endpoint: o.endpoint.ID, Lane: lane, N: 2, Lease: long})
	}
	keys := o.keys()
	claims, err := o.tested.Claim(o.Context(), c)
	o.ok(err)
	for _, item := range claims.Items {
		key := item.Event.OrderingKey
		if k := keys[key]; k.Head != item.ID || !k.PausedBy.IsZero() {
			o.Fatalf("claimed %s of key %q, which stands at %+v", item.ID, key, k)
		}
		for _, other := range o.claims {
			if other.Event.OrderingKey == key {
				o.Fatalf("claimed %s of key %q while %s is under way", item.ID, key, other.ID)
			}
		}
		o.claims = append(o.claims, item)
	}
}

// commit settles one claim. The caller removes it from o.claims.
func (o *orders) commit(s store.Settlement) {
	o.Helper()
	settled, err := o.tested.Settle(o.Context(), []store.Settlement{s})
	o.ok(err)
	event := s.Claimed.Event
	switch {
	case settled[0].Stale:
		o.Fatalf("the settlement of %s is stale", s.Claimed.ID)
	case s.Transition.To != postrider.Delivered:
	case event.Sequence <= o.last[event.OrderingKey]:
		o.Fatalf("sequence %d of key %q succeeded after %d", event.Sequence, event.OrderingKey, o.last[event.OrderingKey])
	default:
		o.last[event.OrderingKey] = event.Sequence
	}
}

func (o *orders) settle() {
	if len(o.claims) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.claims)-1).Draw(o.T, "claim")
	c := o.claims[i]
	o.claims = slices.Delete(o.claims, i, i+1)
	switch rapid.SampledFrom([]string{"delivered", "delivered", "dead", "retry", "release"}).Draw(o.T, "settlement") {
	case "delivered":
		o.commit(delivered(c))
	case "dead":
		o.commit(dead(c))
	case "retry":
		o.commit(retry(c, 0))
	case "release":
		o.ok(o.tested.Release(o.Context(), []store.Lease{{Delivery: c.ID, Token: c.Token}}))
	}
}

func (o *orders) expire() {
	o.Helper()
	_, _, err := o.tested.Expire(o.Context(), 100)
	o.ok(err)
}

// cancel ends one delivery if it is pending, even if an attempt is under way.
func (o *orders) cancel() {
	if len(o.known) == 0 {
		return
	}
	id := rapid.SampledFrom(o.known).Draw(o.T, "delivery")
	if _, err := o.tested.Cancel(o.Context(), store.Cancel{Delivery: id}); err == nil {
		o.claims = slices.DeleteFunc(o.claims, func(c postrider.Claimed) bool { return c.ID == id })
	}
}

// goOn replays or discards the dead letter that pauses a key, for each paused key.
func (o *orders) goOn(replay bool) {
	o.Helper()
	for _, key := range o.keys() {
		switch {
		case key.PausedBy.IsZero():
		case replay:
			d, err := o.tested.Replay(o.Context(), store.Replay{
				Delivery: key.PausedBy, ID: store.NewID[postrider.DeliveryID](o.ids), Expiry: long,
			})
			o.ok(err)
			o.known = append(o.known, d.ID)
		default:
			_, err := o.tested.Discard(o.Context(), store.Discard{Delivery: key.PausedBy})
			o.ok(err)
		}
	}
}

// finish delivers all deliveries that are left.
func (o *orders) finish() {
	o.Helper()
	for range 2 * (len(o.known) + 1) {
		for _, c := range o.claims {
			o.commit(delivered(c))
		}
		o.claims = nil
		o.goOn(false)
		o.claim()
	}
	if keys := o.keys(); len(keys) > 0 {
		o.Fatalf("these keys are stuck: %+v", keys)
	}
	page, err := o.tested.Deliveries(o.Context(), store.DeliveryQuery{Endpoint: o.endpoint.ID, Status: postrider.Pending})
	o.ok(err)
	if len(page.Items) > 0 {
		o.Fatalf("%d deliveries are stuck", len(page.Items))
	}
}
