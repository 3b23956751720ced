package storetest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var encryption = []verb{
	{"Keyring", []sentence{
		{"it returns nil until a keyring is stored", keyringRead},
	}},
	{"SwapKeyring", []sentence{
		{"it replaces the stored keyring and returns the new one", swapKeyringReplaces},
		{"another old keyring than the stored one changes nothing and returns the stored one", swapKeyringConflict},
		{"parallel callers all get the same keyring", swapKeyringInParallel},
	}},
	{"EncryptedValues", []sentence{
		{"secrets and credentials are ordered by their ids", encryptedOrder},
		{"at most limit values come after the id", encryptedPages},
		{"the first value after the id before a value's is that value", encryptedOne},
		{"expired secrets and those of deleted endpoints are listed", encryptedLeftovers},
		{"passwords of sources come before archive keys, and are reencrypted", encryptedSources},
	}},
	{"Reencrypt", []sentence{
		{"values that still equal Old are replaced and counted", reencryptReplaces},
		{"values that changed since are left alone", reencryptLeavesAlone},
		{"it is no change of an endpoint", reencryptIsNoChange},
	}},
}

// swapKeyring swaps the stored keyring, and returns the keyring stored afterwards. An empty text
// stands for no keyring.
func (w *world) swapKeyring(old, next string) string {
	w.Helper()
	stored, err := w.SwapKeyring(w.Context(), keyringText(old), keyringText(next))
	w.ok(err)
	return string(stored)
}

func keyringText(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func (w *world) keyring() []byte {
	w.Helper()
	stored, err := w.Keyring(w.Context())
	w.ok(err)
	return stored
}

func keyringRead(w *world) {
	w.same("the keyring of an empty store", w.keyring() == nil, true)
	w.swapKeyring("", "\x00a")
	w.same("the stored keyring", string(w.keyring()), "\x00a")
}

func swapKeyringReplaces(w *world) {
	w.same("the first keyring", w.swapKeyring("", "\x00a"), "\x00a")
	w.same("the next keyring", w.swapKeyring("\x00a", "b"), "b")
	w.same("the same again", w.swapKeyring("b", "b"), "b")
	w.same("the stored keyring", string(w.keyring()), "b")
}

func swapKeyringConflict(w *world) {
	w.same("old where there is none", w.swapKeyring("a", "b"), "")
	w.same("the first keyring", w.swapKeyring("", "a"), "a")
	w.same("no old where there is one", w.swapKeyring("", "b"), "a")
	w.same("another old", w.swapKeyring("c", "b"), "a")
	w.same("the stored old", w.swapKeyring("a", "b"), "b")
}

func swapKeyringInParallel(w *world) {
	got := make([]string, 8)
	var nodes sync.WaitGroup
	for i := range got {
		nodes.Go(func() {
			stored, err := w.SwapKeyring(w.Context(), nil, []byte{'a' + byte(i)})
			if err != nil {
				w.Errorf("SwapKeyring: %v", err)
			}
			got[i] = string(stored)
		})
	}
	nodes.Wait()
	if stored := string(w.keyring()); stored == "" || slices.ContainsFunc(got, func(text string) bool { return text != stored }) {
		w.Errorf("the callers got %q, and %q is stored", got, stored)
	}
}

// encryptedEndpoints stores three endpoints with their secrets, two of them with credentials. It
// returns the endpoints and their encrypted values, in order.
func (w *world) encryptedEndpoints() (endpoints []postrider.Endpoint, encrypted []store.EncryptedValue) {
	w.Helper()
	account := w.account()
	for i := range 3 {
		endpoints = append(endpoints, w.draft(account))
		if e := &endpoints[i]; i != 1 {
			e.Credentials = bytes.Repeat(e.ID[:], 3)
			encrypted = append(encrypted, store.EncryptedValue{ID: store.EncryptedID{Endpoint: e.ID}, Bytes: e.Credentials})
		}
	}
	for _, secret := range []postrider.Secret{w.secret(endpoints[1].ID), w.secret(endpoints[0].ID), w.secret(endpoints[1].ID)} {
		at := slices.IndexFunc(endpoints, func(e postrider.Endpoint) bool { return e.ID == secret.Endpoint })
		endpoints[at] = w.put(endpoints[at], secret)
		encrypted = append(encrypted, store.EncryptedValue{
			ID:    store.EncryptedID{Endpoint: secret.Endpoint, Secret: secret.ID},
			Bytes: secret.Encrypted,
		})
	}
	endpoints[2] = w.put(endpoints[2])
	slices.SortFunc(encrypted, func(a, b store.EncryptedValue) int { return a.ID.Compare(b.ID) })
	return endpoints, encrypted
}

func (w *world) encrypted(after store.EncryptedID, limit int) []store.EncryptedValue {
	w.Helper()
	encrypted, err := w.EncryptedValues(w.Context(), after, limit)
	w.ok(err)
	return encrypted
}

func encryptedOrder(w *world) {
	w.same("of an empty store", w.encrypted(store.EncryptedID{}, 10), []store.EncryptedValue{})
	endpoints, want := w.encryptedEndpoints()
	w.same("the encrypted values", w.encrypted(store.EncryptedID{}, 10), want)
	first := []store.EncryptedID{{Endpoint: endpoints[0].ID}, {Endpoint: endpoints[0].ID, Secret: w.secrets(endpoints[0].ID)[0].ID}}
	w.same("the credentials of an endpoint come before its secrets", []store.EncryptedID{want[0].ID, want[1].ID}, first)
}

func encryptedOne(w *world) {
	_, values := w.encryptedEndpoints()
	for _, want := range values {
		w.same("the value", w.encrypted(want.ID.Before(), 1), []store.EncryptedValue{want})
	}
}

func encryptedPages(w *world) {
	_, want := w.encryptedEndpoints()
	var after store.EncryptedID
	var got []store.EncryptedValue
	for {
		page := w.encrypted(after, 2)
		if len(page) > 2 {
			w.Fatalf("a page has %d items, want at most 2", len(page))
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		after = page[len(page)-1].ID
	}
	w.same("the encrypted values", got, want)
}

func encryptedLeftovers(w *world) {
	e := w.draft(w.account())
	e.Credentials = []byte("encrypted")
	old := w.secret(e.ID)
	old.ExpiresAt = w.now().Add(-time.Second)
	w.become(w.put(e, old), postrider.EndpointDeleted)
	w.same("the encrypted values", w.encrypted(store.EncryptedID{}, 10), []store.EncryptedValue{
		{ID: store.EncryptedID{Endpoint: e.ID}, Bytes: e.Credentials},
		{ID: store.EncryptedID{Endpoint: e.ID, Secret: old.ID}, Bytes: old.Encrypted},
	})
}

func encryptedSources(w *world) {
	_, others := w.encryptedEndpoints()
	account := w.account()
	_, err := w.PutArchiveKey(w.Context(), account, account[:])
	w.ok(err)
	others = append([]store.EncryptedValue{{ID: store.EncryptedID{Archive: account}, Bytes: account[:]}}, others...)
	var passwords []store.EncryptedValue
	for _, name := range []string{"b", "a"} {
		s := postrider.Source{ID: newID[postrider.SourceID](w), Name: name, URL: "postgres://r@p/d", Keep: time.Hour, CreatedAt: w.now()}
		s.Password = []byte("\x00\xff" + name)
		w.ok(w.PutSource(w.Context(), s))
		passwords = append(passwords, store.EncryptedValue{ID: store.EncryptedID{Source: s.ID}, Bytes: s.Password})
	}
	without := postrider.Source{ID: newID[postrider.SourceID](w), Name: "c", URL: "postgres://r@p/d", Keep: time.Hour, CreatedAt: w.now()}
	w.ok(w.PutSource(w.Context(), without))
	w.same("the encrypted values", w.encrypted(store.EncryptedID{}, 10), append(passwords, others...))
	for i, password := range passwords {
		w.same("after it", w.encrypted(password.ID, 10), append(slices.Clone(passwords[i+1:]), others...))
		w.same("it alone", w.encrypted(password.ID.Before(), 1), []store.EncryptedValue{password})
	}
	w.same("after the archive key", w.encrypted(others[0].ID, 10), others[1:])
	list := reencryptions(passwords)
	list[0].Old = []byte("another")
	w.same("reencrypted", w.reencrypt(list...), 1)
	sources, err := w.Sources(w.Context())
	w.ok(err)
	w.same("the passwords", [][]byte{sources[0].Password, sources[1].Password}, [][]byte{list[1].New, passwords[0].Bytes})
}

// reencryptions returns a replacement for each value of the list.
func reencryptions(list []store.EncryptedValue) (changes []store.Reencryption) {
	for _, s := range list {
		changes = append(changes, store.Reencryption{ID: s.ID, Old: s.Bytes, New: append([]byte("again "), s.Bytes...)})
	}
	return changes
}

func (w *world) reencrypt(list ...store.Reencryption) int {
	w.Helper()
	n, err := w.Reencrypt(w.Context(), list)
	w.ok(err)
	return n
}

func reencryptReplaces(w *world) {
	endpoints, encrypted := w.encryptedEndpoints()
	list := reencryptions(encrypted)
	w.same("the first time", w.reencrypt(list...), len(list))
	for i := range encrypted {
		encrypted[i].Bytes = list[i].New
	}
	w.same("the encrypted values", w.encrypted(store.EncryptedID{}, 10), encrypted)
	w.same("the credentials", w.found(endpoints[0].ID).Credentials, list[0].New)
	w.same("the secret", w.secrets(endpoints[0].ID)[0].Encrypted, list[1].New)
	w.same("again", w.reencrypt(list...), 0)
	w.same("nothing", w.reencrypt(), 0)
}

func reencryptLeavesAlone(w *world) {
	endpoints, encrypted := w.encryptedEndpoints()
	list := reencryptions(encrypted)
	e := endpoints[0]
	e.Credentials = []byte("other credentials")
	w.put(e)
	unknown := store.EncryptedID{Endpoint: endpoints[1].ID, Secret: newID[postrider.SecretID](w)}
	foreign := store.EncryptedID{Endpoint: endpoints[2].ID, Secret: encrypted[1].ID.Secret}
	list = append(list,
		store.Reencryption{ID: unknown, Old: encrypted[1].Bytes, New: []byte("no")},
		store.Reencryption{ID: foreign, Old: encrypted[1].Bytes, New: []byte("no")},
		store.Reencryption{ID: store.EncryptedID{Endpoint: endpoints[1].ID}, Old: nil, New: []byte("no")},
	)
	w.same("how many were replaced", w.reencrypt(list...), len(encrypted)-1)
	for i := range encrypted {
		encrypted[i].Bytes = list[i].New
	}
	encrypted[0].Bytes = e.Credentials
	w.same("the encrypted values", w.encrypted(store.EncryptedID{}, 10), encrypted)
}

func reencryptIsNoChange(w *world) {
	endpoints, encrypted := w.encryptedEndpoints()
	version := w.version()
	w.reencrypt(reencryptions(encrypted)...)
	w.same("the version", w.version(), version)
	got := w.found(endpoints[0].ID)
	got.Credentials = endpoints[0].Credentials
	w.same("the endpoint", got, endpoints[0])
	w.put(endpoints[0]) // the put succeeds, so the revision has not changed
}
