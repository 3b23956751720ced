package secrets_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/secrets"
)

// signingKeyring returns a keyring with a key for each letter. The last letter is the newest key.
func signingKeyring(t testing.TB, letters string) (r secrets.Keyring) {
	t.Helper()
	for _, letter := range letters {
		var err error
		if r, err = r.Add(strings.NewReader(strings.Repeat(string(letter), 40))); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestSignedTexts(t *testing.T) {
	t.Parallel()
	old, rotated, other := secrets.New(signingKeyring(t, "a")), secrets.New(signingKeyring(t, "ab")), secrets.New(signingKeyring(t, "b"))
	text, err := old.Sign(t.Context(), []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]*secrets.Vault{"the vault itself": old, "a vault that has a newer key, too": rotated} {
		if payload, err := v.Unsign(text); string(payload) != "payload" || err != nil {
			t.Errorf("%s: Unsign = %q, %v", name, payload, err)
		}
	}
	if _, err := other.Unsign(text); !errors.Is(err, secrets.ErrUnsigned) {
		t.Errorf("without the key: %v, want ErrUnsigned", err)
	}
	empty, err := old.Sign(t.Context(), nil)
	if payload, unsigned := old.Unsign(empty); len(payload) != 0 || err != nil || unsigned != nil {
		t.Errorf("an empty payload = %q, %v, %v", payload, err, unsigned)
	}
}

func TestADroppedKeyVerifiesNoLinkAndFindsNoEvent(t *testing.T) {
	t.Parallel()
	h := &home{keyring: signingKeyring(t, "a")}
	v := follow(t, h)
	link, err := v.Sign(t.Context(), []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	terms := v.EventTerms(&postrider.Event{Data: []byte(`{"a": "x"}`)}, paths(t, "$.a"))
	both := signingKeyring(t, "ab")
	for _, keyring := range []secrets.Keyring{both, both.NewestOnly(), both} {
		h.set(keyring, nil)
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		has := len(keyring.IDs()) == 2
		if _, err := v.Unsign(link); errors.Is(err, secrets.ErrUnsigned) == has {
			t.Errorf("with the keys %s: Unsign = %v", keyring, err)
		}
		if found := finds(t, v, terms, sought{path: "$.a", value: "x"}); found != has {
			t.Errorf("with the keys %s the event is found: %t", keyring, found)
		}
	}
}

func TestATextThatWasChangedIsNotSigned(t *testing.T) {
	t.Parallel()
	v := secrets.New(signingKeyring(t, "a"))
	text, err := v.Sign(t.Context(), []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range signed {
		changed := append([]byte{}, signed...)
		changed[i] ^= 1
		if _, err := v.Unsign(base64.RawURLEncoding.EncodeToString(changed)); !errors.Is(err, secrets.ErrUnsigned) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	for _, text := range []string{"", "!", text[:len(text)-1], text + "A", "AAAA"} {
		if _, err := v.Unsign(text); !errors.Is(err, secrets.ErrUnsigned) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSigningNeedsTheKeyring(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	calls := 0
	v, err := secrets.Follow(t.Context(), func(context.Context) (secrets.Keyring, error) {
		if calls++; calls > 1 {
			return secrets.Keyring{}, away
		}
		return signingKeyring(t, "a"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Sign(t.Context(), nil); !errors.Is(err, away) {
		t.Errorf("Sign = %v, want that the database is away", err)
	}
}
