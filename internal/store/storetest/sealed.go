package storetest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var seals = []verb{
	{"KeepRing", []sentence{
		{"it stores the ring in place of the one that was", keepRingReplaces},
		{"in place of another than what is stored it stores nothing and answers with that", keepRingConflict},
		{"parallel callers all get the same ring", keepRingInParallel},
	}},
	{"Sealed", []sentence{
		{"secrets and credentials come in the order of their ids", sealedOrder},
		{"at most limit come after the id", sealedPages},
		{"what has expired and what deleted endpoints left is among them", sealedLeftovers},
	}},
	{"Reseal", []sentence{
		{"what is still there is replaced and counted", resealReplaces},
		{"what is not there any more is left alone", resealLeavesAlone},
		{"it is no change of an endpoint", resealIsNoChange},
	}},
}

// keepRing stores a ring and returns the one that is stored then.
func (w *world) keepRing(was, ring string) string {
	w.Helper()
	kept, err := w.KeepRing(w.Context(), ringOf(was), ringOf(ring))
	w.ok(err)
	return string(kept)
}

func ringOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func keepRingReplaces(w *world) {
	w.same("the first ring", w.keepRing("", "\x00a"), "\x00a")
	w.same("the next ring", w.keepRing("\x00a", "b"), "b")
	w.same("the same again", w.keepRing("b", "b"), "b")
	w.same("what is stored", w.keepRing("", "c"), "b")
}

func keepRingConflict(w *world) {
	w.same("in place of one where there is none", w.keepRing("a", "b"), "")
	w.same("the first ring", w.keepRing("", "a"), "a")
	w.same("in place of none", w.keepRing("", "b"), "a")
	w.same("in place of another", w.keepRing("c", "b"), "a")
	w.same("in place of the one", w.keepRing("a", "b"), "b")
}

func keepRingInParallel(w *world) {
	kept := make([]string, 8)
	var nodes sync.WaitGroup
	for i := range kept {
		nodes.Go(func() {
			ring, err := w.KeepRing(w.Context(), nil, []byte{'a' + byte(i)})
			if err != nil {
				w.Errorf("KeepRing: %v", err)
			}
			kept[i] = string(ring)
		})
	}
	nodes.Wait()
	if stored := w.keepRing("none", "none"); stored == "" || slices.ContainsFunc(kept, func(ring string) bool { return ring != stored }) {
		w.Errorf("the callers got %q, and %q is stored", kept, stored)
	}
}

// vault stores three endpoints, two of them with credentials, and their
// secrets, and returns what is sealed of it in the order of the list.
func (w *world) vault() (endpoints []postrider.Endpoint, sealed []store.Sealed) {
	w.Helper()
	account := w.account()
	for i := range 3 {
		endpoints = append(endpoints, w.draft(account))
		if e := &endpoints[i]; i != 1 {
			e.Credentials = bytes.Repeat(e.ID[:], 3)
			sealed = append(sealed, store.Sealed{ID: store.SealedID{Endpoint: e.ID}, Bytes: e.Credentials})
		}
	}
	for _, secret := range []postrider.Secret{w.secret(endpoints[1].ID), w.secret(endpoints[0].ID), w.secret(endpoints[1].ID)} {
		at := slices.IndexFunc(endpoints, func(e postrider.Endpoint) bool { return e.ID == secret.Endpoint })
		endpoints[at] = w.put(endpoints[at], secret)
		sealed = append(sealed, store.Sealed{ID: store.SealedID{Endpoint: secret.Endpoint, Secret: secret.ID}, Bytes: secret.Sealed})
	}
	endpoints[2] = w.put(endpoints[2])
	slices.SortFunc(sealed, func(a, b store.Sealed) int { return a.ID.Compare(b.ID) })
	return endpoints, sealed
}

func (w *world) sealed(after store.SealedID, limit int) []store.Sealed {
	w.Helper()
	sealed, err := w.Sealed(w.Context(), after, limit)
	w.ok(err)
	return sealed
}

func sealedOrder(w *world) {
	w.same("of an empty store", w.sealed(store.SealedID{}, 10), []store.Sealed{})
	endpoints, want := w.vault()
	w.same("what is sealed", w.sealed(store.SealedID{}, 10), want)
	first := []store.SealedID{{Endpoint: endpoints[0].ID}, {Endpoint: endpoints[0].ID, Secret: w.secrets(endpoints[0].ID)[0].ID}}
	w.same("the credentials of an endpoint come before its secrets", []store.SealedID{want[0].ID, want[1].ID}, first)
}

func sealedPages(w *world) {
	_, want := w.vault()
	var after store.SealedID
	var got []store.Sealed
	for {
		page := w.sealed(after, 2)
		if len(page) > 2 {
			w.Fatalf("a page has %d items, want at most 2", len(page))
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		after = page[len(page)-1].ID
	}
	w.same("what is sealed", got, want)
}

func sealedLeftovers(w *world) {
	e := w.draft(w.account())
	e.Credentials = []byte("sealed")
	old := w.secret(e.ID)
	old.ExpiresAt = w.now().Add(-time.Second)
	w.become(w.put(e, old), postrider.EndpointDeleted)
	w.same("what is sealed", w.sealed(store.SealedID{}, 10), []store.Sealed{
		{ID: store.SealedID{Endpoint: e.ID}, Bytes: e.Credentials},
		{ID: store.SealedID{Endpoint: e.ID, Secret: old.ID}, Bytes: old.Sealed},
	})
}

// again is everything of the list under another key.
func again(list []store.Sealed) (reseal []store.Reseal) {
	for _, s := range list {
		reseal = append(reseal, store.Reseal{ID: s.ID, Was: s.Bytes, Now: append([]byte("again "), s.Bytes...)})
	}
	return reseal
}

func (w *world) reseal(list ...store.Reseal) int {
	w.Helper()
	n, err := w.Reseal(w.Context(), list)
	w.ok(err)
	return n
}

func resealReplaces(w *world) {
	endpoints, sealed := w.vault()
	list := again(sealed)
	w.same("the first time", w.reseal(list...), len(list))
	for i := range sealed {
		sealed[i].Bytes = list[i].Now
	}
	w.same("what is sealed", w.sealed(store.SealedID{}, 10), sealed)
	w.same("the credentials", w.found(endpoints[0].ID).Credentials, list[0].Now)
	w.same("the secret", w.secrets(endpoints[0].ID)[0].Sealed, list[1].Now)
	w.same("again", w.reseal(list...), 0)
	w.same("nothing", w.reseal(), 0)
}

func resealLeavesAlone(w *world) {
	endpoints, sealed := w.vault()
	list := again(sealed)
	e := endpoints[0]
	e.Credentials = []byte("other credentials")
	w.put(e)
	unknown := store.SealedID{Endpoint: endpoints[1].ID, Secret: newID[postrider.SecretID](w)}
	foreign := store.SealedID{Endpoint: endpoints[2].ID, Secret: sealed[1].ID.Secret}
	list = append(list,
		store.Reseal{ID: unknown, Was: sealed[1].Bytes, Now: []byte("no")},
		store.Reseal{ID: foreign, Was: sealed[1].Bytes, Now: []byte("no")},
		store.Reseal{ID: store.SealedID{Endpoint: endpoints[1].ID}, Was: nil, Now: []byte("no")},
	)
	w.same("how many were replaced", w.reseal(list...), len(sealed)-1)
	for i := range sealed {
		sealed[i].Bytes = list[i].Now
	}
	sealed[0].Bytes = e.Credentials
	w.same("what is sealed", w.sealed(store.SealedID{}, 10), sealed)
}

func resealIsNoChange(w *world) {
	endpoints, sealed := w.vault()
	version := w.version()
	w.reseal(again(sealed)...)
	w.same("the version", w.version(), version)
	got := w.found(endpoints[0].ID)
	got.Credentials = endpoints[0].Credentials
	w.same("the endpoint", got, endpoints[0])
	w.put(endpoints[0]) // its revision is what it was
}
