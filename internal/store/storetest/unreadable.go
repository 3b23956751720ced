package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// policySetter replaces a stored policy, as a person with a database client could do it. The
// version of the subscriptions stays. It is the only method that the tests need besides the
// contract. Package memory implements it, and the tests of the other stores add it to their
// store.
type policySetter interface {
	SetPolicyDocument(ctx context.Context, id postrider.EndpointID, document string) error
}

// damage replaces the text was by the text is in the stored policy, and returns the endpoint as
// it then reads.
func (w *world) damage(e postrider.Endpoint, was, is string) postrider.Endpoint {
	w.Helper()
	document, err := store.EncodePolicy(e.Policy)
	w.ok(err)
	if !strings.Contains(string(document), was) {
		w.Fatalf("%s is not in %s", was, document)
	}
	w.setPolicy(e, strings.Replace(string(document), was, is, 1))
	return w.found(e.ID)
}

func (w *world) setPolicy(e postrider.Endpoint, document string) {
	w.Helper()
	setter, ok := w.Store.(policySetter)
	if !ok {
		w.Fatalf("the tests cannot damage a %T", w.Store)
	}
	w.ok(setter.SetPolicyDocument(w.Context(), e.ID, document))
}

// endpointsUnreadable damages each field that new deliveries need, and one that they do not need,
// and checks the fields that are left.
func endpointsUnreadable(w *world) {
	account := w.account()
	fine := w.put(w.draft(account))
	draft := w.draft(account)
	draft.Policy.Order, draft.Policy.Expiry, draft.Policy.Filter = postrider.OrderByKey, time.Hour, `{"type": ["a"]}`
	draft.Policy.Changed, draft.Policy.Channels, draft.Policy.Condition = []string{"$.a", "$.b"}, []string{"x"}, "data.a == 1"
	e := w.put(draft)
	left := postrider.Policy{
		Filter: e.Policy.Filter, Changed: e.Policy.Changed, Condition: e.Policy.Condition, Order: postrider.OrderByKey,
		OnDead: postrider.SkipDead, Expiry: time.Hour, Retry: e.Policy.Retry, Channels: e.Policy.Channels,
	}
	for _, tt := range []struct {
		was, is, says string
		left          func(p *postrider.Policy)
	}{
		{`"concurrency":10`, `"concurency":10`, "concurency", func(*postrider.Policy) {}},
		{`"concurrency":10`, `"concurrency":"ten"`, "concurrency", func(*postrider.Policy) {}},
		{`"order":"by_key"`, `"order":"by_account"`, "order", func(p *postrider.Policy) { p.Order = "" }},
		{`"on_dead":"skip"`, `"on_dead":7`, "on_dead", func(p *postrider.Policy) { p.OnDead = postrider.PauseOnDead }},
		{`"expiry_ms":3600000`, `"expiry_ms":"1h"`, "expiry_ms", func(p *postrider.Policy) { p.Expiry = postrider.MaxExpiry }},
		{`"preset":"default"`, `"preset":"weekly"`, "retry.preset", func(p *postrider.Policy) { p.Retry = postrider.RetryPolicy{} }},
		{`"filter":"{\"type\"`, `"filter":"{\"kind\"`, "filter.kind", func(p *postrider.Policy) { p.Filter = "" }},
		{`"changed":["$.a","$.b"]`, `"changed":["$.a","$.b*"]`, "changed[1]", func(p *postrider.Policy) { p.Changed = nil }},
		{`"channels":["x"]`, `"channels":"x"`, "channels", func(p *postrider.Policy) { p.Channels = nil }},
		{`"condition":"data.a`, `"condition":"date.a`, "condition.1:1", func(p *postrider.Policy) { p.Condition = "" }},
		{`"version":1`, `"version":2`, "version 2", func(p *postrider.Policy) {
			*p = postrider.Policy{OnDead: postrider.PauseOnDead, Expiry: postrider.MaxExpiry}
		}},
	} {
		got, want := w.damage(e, tt.was, tt.is), left
		tt.left(&want)
		if !strings.Contains(got.PolicyError, tt.says) || !strings.Contains(got.PolicyError, e.ID.String()) {
			w.Errorf("%s: the PolicyError is %q, want one that names %s and %s", tt.is, got.PolicyError, e.ID, tt.says)
		}
		w.same("what is left of the policy with "+tt.is, got.Policy, want)
		got.Policy, got.PolicyError = e.Policy, ""
		w.same("the rest of the endpoint with "+tt.is, got, e)
		changes, err := w.Changes(w.Context(), 0, 10)
		w.ok(err)
		w.same("the endpoints of Changes with "+tt.is, []postrider.Endpoint{changes.Endpoints[0].Endpoint, changes.Endpoints[1].Endpoint},
			[]postrider.Endpoint{fine, w.found(e.ID)})
	}
	page, err := w.Endpoints(w.Context(), store.EndpointQuery{Account: account})
	w.ok(err)
	w.same("the list", page.Items, []postrider.Endpoint{w.found(e.ID), fine})
}

// putEndpointUnreadable changes another field of a damaged endpoint, makes the document readable,
// damages it again, and puts a policy.
func putEndpointUnreadable(w *world) {
	e := w.endpoint()
	whole, err := store.EncodePolicy(e.Policy)
	w.ok(err)
	damaged := w.damage(e, `"version":1`, `"version":2`)
	damaged.Description = "changed by an older node"
	damaged = w.put(damaged)
	if damaged.PolicyError == "" || w.found(e.ID).PolicyError != damaged.PolicyError {
		w.Errorf("PutEndpoint mended the policy: %+v", damaged)
	}
	w.setPolicy(e, string(whole))
	mended := w.found(e.ID)
	w.same("the policy that a node can read again", mended.Policy, e.Policy)
	if mended.PolicyError != "" || mended.Description != damaged.Description {
		w.Errorf("the endpoint is %+v, want no PolicyError, and the new description", mended)
	}

	mended = w.damage(mended, `"concurrency":10`, `"concurrency":null`)
	mended.Policy, mended.PolicyError = postrider.DefaultPolicy(), ""
	mended.Policy.Concurrency = 7
	mended = w.put(mended)
	w.same("the endpoint with a new policy", w.found(e.ID), mended)
}

// putEndpointConditionFailed sets an endpoint aside, changes another option of it, and puts it back.
func putEndpointConditionFailed(w *world) {
	draft := w.draft(w.account())
	draft.Policy.Condition = "data.a == 1"
	e := w.put(draft, w.secret(draft.ID))
	id := w.pending(e, 1)[0]
	e.ConditionFailed = true
	w.put(e)
	aside := w.found(e.ID)
	if !aside.ConditionFailed || !strings.HasPrefix(aside.PolicyError, "condition: ") {
		w.Errorf("the endpoint is %+v, want one that is set aside", aside)
	}
	w.same("its policy", aside.Policy, e.Policy)
	w.waits(id, because(postrider.WaitPolicyUnreadable))
	aside.Policy.Concurrency = 7
	w.put(aside)
	if again := w.found(e.ID); !again.ConditionFailed || again.Policy.Concurrency != 7 {
		w.Errorf("after another change it is %+v, want it set aside", again)
	}
	back := w.found(e.ID)
	back.ConditionFailed, back.PolicyError = false, ""
	w.put(back)
	w.same("the endpoint that is not set aside any more", w.found(e.ID).Policy, back.Policy)
	if again := w.found(e.ID); again.ConditionFailed || again.PolicyError != "" {
		w.Errorf("it is %+v", again)
	}
	w.waits(id, because(postrider.WaitDue))
}

// deliveriesUnreadable damages the endpoint of a pending delivery.
func deliveriesUnreadable(w *world) {
	e := w.draft(w.account())
	e = w.put(e, w.secret(e.ID))
	id := w.pending(e, 1)[0]
	damaged := w.damage(e, `"payload":"envelope"`, `"payload":"xml"`)
	w.waits(id, because(postrider.WaitPolicyUnreadable))
	damaged = w.become(damaged, postrider.EndpointPaused)
	w.waits(id, because(postrider.WaitEndpointPaused))
	w.become(damaged, postrider.EndpointEnabled)
	w.waits(id, because(postrider.WaitPolicyUnreadable))
	whole, err := store.EncodePolicy(e.Policy)
	w.ok(err)
	w.setPolicy(e, string(whole))
	w.waits(id, because(postrider.WaitDue))
}
