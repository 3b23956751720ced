package vault_test

import (
	"bytes"
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
	"github.com/postrider/postrider/internal/vault"
)

const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func newRing(tb testing.TB) vault.Ring {
	tb.Helper()
	ring, err := vault.NewRing(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

func grow(tb testing.TB, ring vault.Ring) vault.Ring {
	tb.Helper()
	grown, err := ring.Grow(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return grown
}

func sealed(tb testing.TB, v *vault.Vault, id byte) postrider.Secret {
	tb.Helper()
	s := postrider.Secret{ID: postrider.SecretID{id}}
	if err := v.SealSecret(&s, text); err != nil {
		tb.Fatal(err)
	}
	return s
}

func wantOpen(tb testing.TB, v *vault.Vault, s postrider.Secret) {
	tb.Helper()
	if got, err := v.OpenSecret(s); err != nil || got != text {
		tb.Errorf("OpenSecret = %q, %v; want the text", got, err)
	}
}

func TestWhatIsSealedOpens(t *testing.T) {
	t.Parallel()
	v := vault.New(newRing(t))
	first, second := sealed(t, v, 1), sealed(t, v, 1)
	wantOpen(t, v, first)
	wantOpen(t, v, second)
	if bytes.Equal(first.Sealed, second.Sealed) {
		t.Error("the same text was sealed to the same bytes twice")
	}
	if bytes.Contains(first.Sealed, []byte(text[6:])) {
		t.Error("the text shows through")
	}
	e := postrider.Endpoint{ID: postrider.EndpointID{1}}
	want := postrider.Credentials{Headers: map[string]string{"X-Key": "a b"}, Auth: "pass\"word", TLSKey: "-----BEGIN\n"}
	if err := v.SealCredentials(&e, want); err != nil {
		t.Fatal(err)
	}
	got, err := v.OpenCredentials(e)
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("OpenCredentials = %#v, %v; want what was sealed", got, err)
	}
}

func TestNoCredentialsAreNil(t *testing.T) {
	t.Parallel()
	v := vault.New(newRing(t))
	e := postrider.Endpoint{Credentials: []byte("old")}
	if err := v.SealCredentials(&e, postrider.Credentials{Headers: map[string]string{}}); err != nil || e.Credentials != nil {
		t.Errorf("SealCredentials of none = %v, with %d bytes", err, len(e.Credentials))
	}
	if got, err := v.OpenCredentials(e); err != nil || !cmp.Equal(got, postrider.Credentials{}) {
		t.Errorf("OpenCredentials = %#v, %v; want none", got, err)
	}
	if err := v.SealCredentials(&e, postrider.Credentials{Auth: "\xff"}); err == nil || e.Credentials != nil {
		t.Errorf("SealCredentials of what is no text = %v, with %d bytes", err, len(e.Credentials))
	}
}

func TestWhatWasChangedDoesNotOpen(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	v := vault.New(ring)
	s := sealed(t, v, 1)
	open := func(change func(s *postrider.Secret)) error {
		changed := s
		changed.Sealed = bytes.Clone(s.Sealed)
		change(&changed)
		got, err := v.OpenSecret(changed)
		if err == nil || got != "" {
			t.Errorf("OpenSecret = %q, %v; want an error alone", got, err)
		}
		return err
	}
	for i := range s.Sealed {
		for bit := range 8 {
			err := open(func(s *postrider.Secret) { s.Sealed[i] ^= 1 << bit })
			if i > 8 && !errors.Is(err, vault.ErrDamaged) { // before it are the format and the key
				t.Errorf("byte %d: %v, want ErrDamaged", i, err)
			}
		}
		open(func(s *postrider.Secret) { s.Sealed = s.Sealed[:i] })
	}
	open(func(s *postrider.Secret) { s.Sealed = append(s.Sealed, 0) })
	open(func(s *postrider.Secret) { s.Sealed = nil })
	if err := open(func(s *postrider.Secret) { s.ID = postrider.SecretID{2} }); !errors.Is(err, vault.ErrDamaged) {
		t.Errorf("of another row: %v, want ErrDamaged", err)
	}
	if err := open(func(s *postrider.Secret) { s.Sealed[0] = 2 }); !strings.Contains(err.Error(), "sealed in format 2, which this version does not know") {
		t.Errorf("of another format: %v", err)
	}
	e := postrider.Endpoint{ID: postrider.EndpointID{1}, Credentials: s.Sealed}
	if _, err := v.OpenCredentials(e); !errors.Is(err, vault.ErrDamaged) {
		t.Errorf("a secret opened as credentials: %v, want ErrDamaged", err)
	}
}

func TestAnUnknownKeyIsNamed(t *testing.T) {
	t.Parallel()
	s := sealed(t, vault.New(newRing(t)), 1)
	key, err := vault.KeyOf(s.Sealed)
	if err != nil {
		t.Fatal(err)
	}
	_, err = vault.New(newRing(t)).OpenSecret(s)
	if unknown, ok := errors.AsType[*vault.UnknownKeyError](err); !ok || unknown.Key != key {
		t.Errorf("OpenSecret = %v, want an UnknownKeyError of %s", err, key)
	}
	if want := "sealed with key " + key.String() + ", which is not in the ring"; !strings.Contains(err.Error(), want) {
		t.Errorf("OpenSecret = %v, want %q", err, want)
	}
}

// home is a source whose ring changes.
type home struct {
	mu    sync.Mutex
	ring  vault.Ring
	err   error
	asked int
}

func (h *home) read() (vault.Ring, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	return h.ring, h.err
}

func (h *home) set(ring vault.Ring, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring, h.err = ring, err
}

func follow(tb testing.TB, h *home) *vault.Vault {
	tb.Helper()
	v, err := vault.Follow(h.read)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestANewKeySealsAtOnceAndOldOnesOpen(t *testing.T) {
	t.Parallel()
	h := &home{ring: newRing(t)}
	here, there := follow(t, h), follow(t, h)
	old := sealed(t, here, 1)
	grown := grow(t, h.ring)
	h.set(grown, nil)

	young := sealed(t, here, 2)
	if key, _ := vault.KeyOf(young.Sealed); key != grown.Newest() {
		t.Errorf("sealed with %s, want the new key %s", key, grown.Newest())
	}
	wantOpen(t, there, old)
	wantOpen(t, there, young) // whose key it has not seen yet

	again, err := there.ResealSecret(old.ID, old.Sealed)
	if key, _ := vault.KeyOf(again); err != nil || key != grown.Newest() {
		t.Errorf("ResealSecret = under %s, %v; want under %s", key, err, grown.Newest())
	}
	same, err := there.ResealSecret(old.ID, again)
	if err != nil || !bytes.Equal(same, again) {
		t.Errorf("ResealSecret of what is under the newest key = other bytes, %v", err)
	}
	h.set(grown.Alone(), nil)
	if err := here.Refresh(); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, here, old) // it was known once
	fresh := vault.New(grown.Alone())
	wantOpen(t, fresh, postrider.Secret{ID: old.ID, Sealed: again})
	if _, err := fresh.OpenSecret(old); err == nil {
		t.Error("a key that was dropped opens")
	}
}

func TestNothingIsSealedWithAKeyThatMayBeGone(t *testing.T) {
	t.Parallel()
	h := &home{ring: newRing(t)}
	v := follow(t, h)
	old := sealed(t, v, 1)
	gone := errors.New("no such file")
	h.set(vault.Ring{}, gone)
	s := postrider.Secret{ID: postrider.SecretID{2}}
	if err := v.SealSecret(&s, text); !errors.Is(err, gone) || s.Sealed != nil {
		t.Errorf("SealSecret = %v with %d bytes, want the source's error", err, len(s.Sealed))
	}
	e := postrider.Endpoint{}
	if err := v.SealCredentials(&e, postrider.Credentials{Auth: "x"}); !errors.Is(err, gone) || e.Credentials != nil {
		t.Errorf("SealCredentials = %v with %d bytes, want the source's error", err, len(e.Credentials))
	}
	wantOpen(t, v, old)
	if _, err := vault.Follow(h.read); !errors.Is(err, gone) {
		t.Errorf("Follow = %v, want the source's error", err)
	}
}

func TestAnUnknownKeyIsAskedForOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &home{ring: newRing(t)}
		v := follow(t, h)
		h.asked = 0
		foreign := newRing(t)
		s := sealed(t, vault.New(foreign), 1)
		for range 100 {
			if _, err := v.OpenSecret(s); err == nil {
				t.Fatal("what is sealed with a foreign key opens")
			}
		}
		if h.asked != 1 {
			t.Errorf("the source was asked %d times in the same second, want once", h.asked)
		}
		wantOpen(t, v, sealed(t, v, 2))
		h.set(foreign, nil)
		time.Sleep(time.Second)
		wantOpen(t, v, s)
	})
}

func TestVaultIsForManyAtOnce(t *testing.T) {
	t.Parallel()
	h := &home{ring: newRing(t)}
	v := follow(t, h)
	var all sync.WaitGroup
	for i := range byte(8) {
		all.Go(func() {
			for n := range 50 {
				if i == 0 && n%10 == 0 {
					h.set(grow(t, v0(h)), nil)
				}
				wantOpen(t, v, sealed(t, v, i))
			}
		})
	}
	all.Wait()
}

func v0(h *home) vault.Ring {
	ring, _ := h.read()
	return ring
}

// TestNothingOfAKeyIsPrinted looks for a ring's key in every text that fmt
// makes of what holds it.
func TestNothingOfAKeyIsPrinted(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	_, encoded, _ := strings.Cut(strings.TrimSpace(string(ring.Format())), ":")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	holder := struct{ inner struct{ r vault.Ring } }{}
	holder.inner.r = ring
	v := vault.New(ring)
	decimal := strings.Trim(fmt.Sprintf("%d", key[:8]), "[]")
	for _, shown := range []string{
		fmt.Sprintf("%v %+v %#v %s %q %x", ring, ring, ring, ring, ring, ring),
		fmt.Sprintf("%v %+v %#v", holder, holder, holder),
		fmt.Sprintf("%v %+v %#v", v, v, v),
		ring.LogValue().String(),
	} {
		for _, form := range []string{encoded, hex.EncodeToString(key), decimal, string(key)} {
			if strings.Contains(shown, form) {
				t.Errorf("%s holds the key", shown)
			}
		}
	}
	if !strings.Contains(ring.String(), ring.Newest().String()) {
		t.Errorf("String = %s, want the key's id", ring)
	}
}

// What is stored stays readable: these were sealed once, under a key that is
// 32 bytes of 7.
const (
	storedSecret      = "01010203040506070896a2ad49dfbc5a901b6142dc0f9e77c8dbd4bdbe737ae739206400989575cb304fb00ac1dc26bd1db6ab52cd6139c7a3d01f0fbdb01a3c0b384fc1fc1ebe80a8805a"
	storedCredentials = "010102030405060708c063e79e7e06ad6e91c02d3b921f3410103e7625ff9a79245d2ae94ac712eaae3d8de724b78a4b3c7035f2851d589cfc70180b9d77d50b25fc13745976f367039706063d1a600df3f17dbefcbf3d"
)

func storedRing(tb testing.TB) vault.Ring {
	tb.Helper()
	ring, err := vault.Parse([]byte("0102030405060708:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))))
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

func unhex(tb testing.TB, digits string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestWhatIsStoredStaysReadable(t *testing.T) {
	t.Parallel()
	v := vault.New(storedRing(t))
	wantOpen(t, v, postrider.Secret{ID: postrider.SecretID{1}, Sealed: unhex(t, storedSecret)})
	got, err := v.OpenCredentials(postrider.Endpoint{ID: postrider.EndpointID{1}, Credentials: unhex(t, storedCredentials)})
	want := postrider.Credentials{Headers: map[string]string{"X-Key": "a"}, Auth: "b", TLSKey: "c"}
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("OpenCredentials = %#v, %v; want what was stored", got, err)
	}
}

func FuzzOpen(f *testing.F) {
	v := vault.New(storedRing(f))
	secret, credentials := unhex(f, storedSecret), unhex(f, storedCredentials)
	f.Add(secret)
	f.Add(secret[:20])
	f.Add(credentials)
	f.Add([]byte{1})
	f.Add(append([]byte{2}, secret[1:]...))
	f.Fuzz(func(t *testing.T, forged []byte) {
		got, err := v.OpenSecret(postrider.Secret{ID: postrider.SecretID{1}, Sealed: forged})
		if err == nil && !bytes.Equal(forged, secret) {
			t.Errorf("OpenSecret of forged bytes = %q", got)
		}
		c, err := v.OpenCredentials(postrider.Endpoint{ID: postrider.EndpointID{1}, Credentials: forged})
		if err == nil && forged != nil && !bytes.Equal(forged, credentials) {
			t.Errorf("OpenCredentials of forged bytes = %#v", c)
		}
	})
}

func BenchmarkOpenSecret(b *testing.B) {
	v := vault.New(newRing(b))
	s := sealed(b, v, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.OpenSecret(s); err != nil {
			b.Fatal(err)
		}
	}
}
