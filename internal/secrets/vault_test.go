package secrets_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func newKeyring(tb testing.TB) secrets.Keyring {
	tb.Helper()
	keyring, err := secrets.NewKeyring(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return keyring
}

func withNewKey(tb testing.TB, keyring secrets.Keyring) secrets.Keyring {
	tb.Helper()
	next, err := keyring.Add(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return next
}

func encrypted(tb testing.TB, v *secrets.Vault, id byte) postrider.Secret {
	tb.Helper()
	s := postrider.Secret{ID: postrider.SecretID{id}}
	if err := v.EncryptSecret(tb.Context(), &s, text); err != nil {
		tb.Fatal(err)
	}
	return s
}

func wantDecrypted(tb testing.TB, v *secrets.Vault, s postrider.Secret) {
	tb.Helper()
	if got, err := v.DecryptSecret(tb.Context(), s); err != nil || got != text {
		tb.Errorf("DecryptSecret = %q, %v; want the text", got, err)
	}
}

func TestEncryptedValuesDecrypt(t *testing.T) {
	t.Parallel()
	v := secrets.New(newKeyring(t))
	first, second := encrypted(t, v, 1), encrypted(t, v, 1)
	wantDecrypted(t, v, first)
	wantDecrypted(t, v, second)
	if bytes.Equal(first.Encrypted, second.Encrypted) {
		t.Error("the same text was encrypted to the same bytes twice")
	}
	if bytes.Contains(first.Encrypted, []byte(text[6:])) {
		t.Error("the encrypted value contains the text")
	}
	e := postrider.Endpoint{ID: postrider.EndpointID{1}}
	want := postrider.Credentials{Headers: map[string]string{"X-Key": "a b"}, Auth: "pass\"word", TLSKey: "-----BEGIN\n"}
	if err := v.EncryptCredentials(t.Context(), &e, want); err != nil {
		t.Fatal(err)
	}
	got, err := v.DecryptCredentials(t.Context(), e)
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("DecryptCredentials = %#v, %v; want the credentials that were encrypted", got, err)
	}
}

func TestThePasswordOfASource(t *testing.T) {
	t.Parallel()
	v := secrets.New(newKeyring(t))
	s := postrider.Source{ID: postrider.SourceID{1}}
	if err := v.EncryptSource(t.Context(), &s, text); err != nil || bytes.Contains(s.Password, []byte(text)) {
		t.Fatalf("EncryptSource = %v, with %q", err, s.Password)
	}
	if got, err := v.DecryptSource(t.Context(), s); err != nil || got != text {
		t.Errorf("DecryptSource = %q, %v", got, err)
	}
	again, err := v.Reencrypt(t.Context(), store.EncryptedValue{ID: store.EncryptedID{Source: s.ID}, Bytes: s.Password})
	if err != nil || !bytes.Equal(again, s.Password) {
		t.Errorf("Reencrypt under the same key = %q, %v", again, err)
	}
	moved := postrider.Source{ID: postrider.SourceID{2}, Password: s.Password}
	if _, err := v.DecryptSource(t.Context(), moved); !errors.Is(err, secrets.ErrDamaged) {
		t.Errorf("of another source: %v, want ErrDamaged", err)
	}
	if err := v.EncryptSource(t.Context(), &s, ""); err != nil || s.Password != nil {
		t.Errorf("EncryptSource of none = %v, with %q", err, s.Password)
	}
	if got, err := v.DecryptSource(t.Context(), s); err != nil || got != "" {
		t.Errorf("DecryptSource of none = %q, %v", got, err)
	}
}

func TestNoCredentialsAreNil(t *testing.T) {
	t.Parallel()
	v := secrets.New(newKeyring(t))
	e := postrider.Endpoint{Credentials: []byte("old")}
	if err := v.EncryptCredentials(t.Context(), &e, postrider.Credentials{Headers: map[string]string{}}); err != nil || e.Credentials != nil {
		t.Errorf("EncryptCredentials of none = %v, with %d bytes", err, len(e.Credentials))
	}
	if got, err := v.DecryptCredentials(t.Context(), e); err != nil || !cmp.Equal(got, postrider.Credentials{}) {
		t.Errorf("DecryptCredentials = %#v, %v; want none", got, err)
	}
	if err := v.EncryptCredentials(t.Context(), &e, postrider.Credentials{Auth: "\xff"}); err == nil || e.Credentials != nil {
		t.Errorf("EncryptCredentials of invalid UTF-8 = %v, with %d bytes", err, len(e.Credentials))
	}
}

func TestChangedValuesAreDamaged(t *testing.T) {
	t.Parallel()
	keyring := newKeyring(t)
	v := secrets.New(keyring)
	s := encrypted(t, v, 1)
	open := func(change func(s *postrider.Secret)) error {
		changed := s
		changed.Encrypted = bytes.Clone(s.Encrypted)
		change(&changed)
		got, err := v.DecryptSecret(t.Context(), changed)
		if err == nil || got != "" {
			t.Errorf("DecryptSecret = %q, %v; want an error alone", got, err)
		}
		return err
	}
	for i := range s.Encrypted {
		for bit := range 8 {
			err := open(func(s *postrider.Secret) { s.Encrypted[i] ^= 1 << bit })
			// The bytes before have the format and the key.
			if i > 8 && !errors.Is(err, secrets.ErrDamaged) {
				t.Errorf("byte %d: %v, want ErrDamaged", i, err)
			}
		}
		open(func(s *postrider.Secret) { s.Encrypted = s.Encrypted[:i] })
	}
	open(func(s *postrider.Secret) { s.Encrypted = append(s.Encrypted, 0) })
	open(func(s *postrider.Secret) { s.Encrypted = nil })
	if err := open(func(s *postrider.Secret) { s.ID = postrider.SecretID{2} }); !errors.Is(err, secrets.ErrDamaged) {
		t.Errorf("of another row: %v, want ErrDamaged", err)
	}
	if err := open(func(s *postrider.Secret) { s.Encrypted[0] = 2 }); !strings.Contains(err.Error(),
		"encrypted in format 2, which this version does not know") {
		t.Errorf("of another format: %v", err)
	}
	e := postrider.Endpoint{ID: postrider.EndpointID{1}, Credentials: s.Encrypted}
	if _, err := v.DecryptCredentials(t.Context(), e); !errors.Is(err, secrets.ErrDamaged) {
		t.Errorf("a secret decrypted as credentials: %v, want ErrDamaged", err)
	}
}

// value returns a secret as the store's list has it.
func value(s postrider.Secret) store.EncryptedValue {
	return store.EncryptedValue{ID: store.EncryptedID{Secret: s.ID}, Bytes: s.Encrypted}
}

func TestAnUnknownKeyIsNamed(t *testing.T) {
	t.Parallel()
	s := encrypted(t, secrets.New(newKeyring(t)), 1)
	key, err := secrets.KeyOf(s.Encrypted)
	if err != nil {
		t.Fatal(err)
	}
	_, err = secrets.New(newKeyring(t)).DecryptSecret(t.Context(), s)
	if unknown, ok := errors.AsType[*secrets.UnknownKeyError](err); !ok || unknown.Key != key {
		t.Errorf("DecryptSecret = %v, want an UnknownKeyError of %s", err, key)
	}
	if want := "encrypted with key " + key.String() + ", which is not in the keyring"; !strings.Contains(err.Error(), want) {
		t.Errorf("DecryptSecret = %v, want %q", err, want)
	}
}

// home is a source whose keyring changes.
type home struct {
	mu      sync.Mutex
	keyring secrets.Keyring
	err     error
	reads   int
}

func (h *home) read(context.Context) (secrets.Keyring, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	return h.keyring, h.err
}

func (h *home) set(keyring secrets.Keyring, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keyring, h.err = keyring, err
}

func follow(tb testing.TB, h *home) *secrets.Vault {
	tb.Helper()
	v, err := secrets.Follow(tb.Context(), h.read)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestANewKeyEncryptsAtOnceAndOldKeysDecrypt(t *testing.T) {
	t.Parallel()
	h := &home{keyring: newKeyring(t)}
	here, there := follow(t, h), follow(t, h)
	old := encrypted(t, here, 1)
	next := withNewKey(t, h.keyring)
	h.set(next, nil)

	young := encrypted(t, here, 2)
	if key, _ := secrets.KeyOf(young.Encrypted); key != next.Newest() {
		t.Errorf("encrypted with %s, want the new key %s", key, next.Newest())
	}
	wantDecrypted(t, there, old)
	wantDecrypted(t, there, young) // the vault does not know its key yet

	again, err := there.Reencrypt(t.Context(), value(old))
	if key, _ := secrets.KeyOf(again); err != nil || key != next.Newest() {
		t.Errorf("Reencrypt = under %s, %v; want under %s", key, err, next.Newest())
	}
	same, err := there.Reencrypt(t.Context(), store.EncryptedValue{ID: value(old).ID, Bytes: again})
	if err != nil || !bytes.Equal(same, again) {
		t.Errorf("Reencrypt of what is under the newest key = other bytes, %v", err)
	}
	h.set(next.NewestOnly(), nil)
	if err := here.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDecrypted(t, here, old) // the vault has read its key once
	fresh := secrets.New(next.NewestOnly())
	wantDecrypted(t, fresh, postrider.Secret{ID: old.ID, Encrypted: again})
	if _, err := fresh.DecryptSecret(t.Context(), old); err == nil {
		t.Error("a dropped key decrypts")
	}
}

func TestNothingIsEncryptedWithAKeyThatMayBeGone(t *testing.T) {
	t.Parallel()
	h := &home{keyring: newKeyring(t)}
	v := follow(t, h)
	old := encrypted(t, v, 1)
	gone := errors.New("no such file")
	h.set(secrets.Keyring{}, gone)
	s := postrider.Secret{ID: postrider.SecretID{2}}
	if err := v.EncryptSecret(t.Context(), &s, text); !errors.Is(err, gone) || s.Encrypted != nil {
		t.Errorf("EncryptSecret = %v with %d bytes, want the source's error", err, len(s.Encrypted))
	}
	e := postrider.Endpoint{}
	if err := v.EncryptCredentials(t.Context(), &e, postrider.Credentials{Auth: "x"}); !errors.Is(err, gone) || e.Credentials != nil {
		t.Errorf("EncryptCredentials = %v with %d bytes, want the source's error", err, len(e.Credentials))
	}
	wantDecrypted(t, v, old)
	if _, err := secrets.Follow(t.Context(), h.read); !errors.Is(err, gone) {
		t.Errorf("Follow = %v, want the source's error", err)
	}
}

func TestAnUnknownKeyIsLookedForOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &home{keyring: newKeyring(t)}
		v := follow(t, h)
		h.reads = 0
		foreign := newKeyring(t)
		s := encrypted(t, secrets.New(foreign), 1)
		for range 100 {
			if _, err := v.DecryptSecret(t.Context(), s); err == nil {
				t.Fatal("a value of a foreign key decrypts")
			}
		}
		if h.reads != 1 {
			t.Errorf("the source was read %d times in the same second, want once", h.reads)
		}
		wantDecrypted(t, v, encrypted(t, v, 2))
		h.set(foreign, nil)
		time.Sleep(time.Second)
		wantDecrypted(t, v, s)
	})
}

// hanging is a source that does not respond until the context ends.
type hanging struct {
	keyring secrets.Keyring
	hangs   bool
	reads   int
}

func (h *hanging) read(ctx context.Context) (secrets.Keyring, error) {
	if !h.hangs {
		return h.keyring, nil
	}
	h.reads++
	<-ctx.Done()
	return secrets.Keyring{}, ctx.Err()
}

// decryptTogether decrypts a value of an unknown key in ten goroutines while the
// source hangs, and returns how long the slowest took.
func decryptTogether(t *testing.T, h *hanging, timeout time.Duration) time.Duration {
	t.Helper()
	h.keyring = newKeyring(t)
	v, err := secrets.Follow(t.Context(), h.read)
	if err != nil {
		t.Fatal(err)
	}
	h.hangs = true
	s := encrypted(t, secrets.New(newKeyring(t)), 1)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	start := time.Now()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			_, err := v.DecryptSecret(ctx, s)
			if _, unknown := errors.AsType[*secrets.UnknownKeyError](err); !unknown {
				t.Errorf("DecryptSecret = %v, want an UnknownKeyError", err)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// TestAHangingSourceIsReadOnceForAllWhoWait checks attempts for an endpoint whose key is unknown.
// They must not wait one after the other while the database with the keyring does not respond.
func TestAHangingSourceIsReadOnceForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		if took := decryptTogether(t, h, time.Minute); took != 5*time.Second || h.reads != 1 {
			t.Errorf("10 goroutines took %v and read %d times, want 5s for the one read", took, h.reads)
		}
	})
}

func TestWaitingForTheSourceEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if took := decryptTogether(t, &hanging{}, time.Second); took != time.Second {
			t.Errorf("10 goroutines took %v, want the 1s of their context", took)
		}
	})
}

func TestAVaultServesManyGoroutines(t *testing.T) {
	t.Parallel()
	h := &home{keyring: newKeyring(t)}
	v := follow(t, h)
	var all sync.WaitGroup
	for i := range byte(8) {
		all.Go(func() {
			for n := range 50 {
				if i == 0 && n%10 == 0 {
					h.set(withNewKey(t, current(h)), nil)
				}
				wantDecrypted(t, v, encrypted(t, v, i))
			}
		})
	}
	all.Wait()
}

func current(h *home) secrets.Keyring {
	keyring, _ := h.read(context.Background())
	return keyring
}

// TestNothingOfAKeyIsPrinted looks for the bytes of a key in every text that fmt makes of a value
// with a keyring.
func TestNothingOfAKeyIsPrinted(t *testing.T) {
	t.Parallel()
	keyring := newKeyring(t)
	_, encoded, _ := strings.Cut(strings.TrimSpace(string(keyring.Format())), ":")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	holder := struct{ inner struct{ r secrets.Keyring } }{}
	holder.inner.r = keyring
	v := secrets.New(keyring)
	decimal := strings.Trim(fmt.Sprintf("%d", key[:8]), "[]")
	for _, shown := range []string{
		fmt.Sprintf("%v %+v %#v %s %q %x", keyring, keyring, keyring, keyring, keyring, keyring),
		fmt.Sprintf("%v %+v %#v", holder, holder, holder),
		fmt.Sprintf("%v %+v %#v", v, v, v),
		keyring.LogValue().String(),
	} {
		for _, form := range []string{encoded, hex.EncodeToString(key), decimal, string(key)} {
			if strings.Contains(shown, form) {
				t.Errorf("%s holds the key", shown)
			}
		}
	}
	if !strings.Contains(keyring.String(), keyring.Newest().String()) {
		t.Errorf("String = %s, want the key's id", keyring)
	}
}

// Values that were encrypted with an earlier version, under a key that is 32 bytes of 7. They must
// stay readable.
const (
	storedSecret      = "01010203040506070896a2ad49dfbc5a901b6142dc0f9e77c8dbd4bdbe737ae739206400989575cb304fb00ac1dc26bd1db6ab52cd6139c7a3d01f0fbdb01a3c0b384fc1fc1ebe80a8805a"
	storedCredentials = "010102030405060708c063e79e7e06ad6e91c02d3b921f3410103e7625ff9a79245d2ae94ac712eaae3d8de724b78a4b3c7035f2851d589cfc70180b9d77d50b25fc13745976f367039706063d1a600df3f17dbefcbf3d"
)

func storedKeyring(tb testing.TB) secrets.Keyring {
	tb.Helper()
	keyring, err := secrets.Parse([]byte("0102030405060708:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))))
	if err != nil {
		tb.Fatal(err)
	}
	return keyring
}

func unhex(tb testing.TB, digits string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestStoredValuesStayReadable(t *testing.T) {
	t.Parallel()
	v := secrets.New(storedKeyring(t))
	wantDecrypted(t, v, postrider.Secret{ID: postrider.SecretID{1}, Encrypted: unhex(t, storedSecret)})
	got, err := v.DecryptCredentials(t.Context(), postrider.Endpoint{ID: postrider.EndpointID{1}, Credentials: unhex(t, storedCredentials)})
	want := postrider.Credentials{Headers: map[string]string{"X-Key": "a"}, Auth: "b", TLSKey: "c"}
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("DecryptCredentials = %#v, %v; want what was stored", got, err)
	}
}

func FuzzDecrypt(f *testing.F) {
	v := secrets.New(storedKeyring(f))
	secret, credentials := unhex(f, storedSecret), unhex(f, storedCredentials)
	f.Add(secret)
	f.Add(secret[:20])
	f.Add(credentials)
	f.Add([]byte{1})
	f.Add(append([]byte{2}, secret[1:]...))
	f.Fuzz(func(t *testing.T, forged []byte) {
		got, err := v.DecryptSecret(t.Context(), postrider.Secret{ID: postrider.SecretID{1}, Encrypted: forged})
		if err == nil && !bytes.Equal(forged, secret) {
			t.Errorf("DecryptSecret of forged bytes = %q", got)
		}
		c, err := v.DecryptCredentials(t.Context(), postrider.Endpoint{ID: postrider.EndpointID{1}, Credentials: forged})
		if err == nil && forged != nil && !bytes.Equal(forged, credentials) {
			t.Errorf("DecryptCredentials of forged bytes = %#v", c)
		}
	})
}

func BenchmarkDecryptSecret(b *testing.B) {
	v := secrets.New(newKeyring(b))
	s := encrypted(b, v, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.DecryptSecret(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}
