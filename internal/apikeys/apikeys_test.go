package apikeys_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// counted counts the lookups of keys.
type counted struct {
	store.Store

	lookups int
}

// Keys counts a lookup.
func (c *counted) Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error) {
	c.lookups++
	return c.Store.Keys(ctx, q)
}

// check returns the error of a request with the key.
func check(t *testing.T, c *apikeys.Checker, key string) error {
	t.Helper()
	_, err := c.Check(t.Context(), http.Header{"Authorization": {"Bearer " + key}})
	return err
}

func TestCheck(t *testing.T) {
	t.Parallel()
	over := &counted{Store: memory.New(memory.Options{})}
	opts := apikeys.Options{Within: time.Second, TooLate: context.DeadlineExceeded, Log: slog.New(slog.DiscardHandler)}
	c := apikeys.New(over, over.Clock(), opts)
	ids := store.NewIDs(over.Clock().Wall, nil)
	text, hash := apikeys.Make()
	key := postrider.APIKey{ID: store.NewID[postrider.KeyID](ids), Hash: hash, Name: "test", CreatedAt: time.Now()}
	if err := over.PutKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	unknown, _ := apikeys.Make()
	for _, tt := range []struct {
		name, text string
		want       error
		lookups    int // of all checks so far
	}{
		{"a key", text, nil, 1},
		{"a known key", text, nil, 1},
		{"a key that does not exist", unknown, apikeys.ErrUnauthorized, 2},
		{"it again", unknown, apikeys.ErrUnauthorized, 2},
		{"a text that was never issued", text[:len(text)-1] + "!", apikeys.ErrUnauthorized, 2},
		{"no key", "", apikeys.ErrUnauthorized, 2},
	} {
		if err := check(t, c, tt.text); !errors.Is(err, tt.want) || over.lookups != tt.lookups {
			t.Errorf("%s: Check = %v after %d lookups, want %v after %d", tt.name, err, over.lookups, tt.want, tt.lookups)
		}
	}
	if err := over.RevokeKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	if c.Forget(); !errors.Is(check(t, c, text), apikeys.ErrUnauthorized) {
		t.Error("a revoked key is accepted after Forget")
	}
}

func TestMakeSecret(t *testing.T) {
	t.Parallel()
	text, hash := apikeys.MakeSecret("x_")
	if hash != sha256.Sum256([]byte(text)) {
		t.Error("the hash is not that of the text")
	}
	for other, want := range map[string]bool{
		text: true, text + "a": false, "y_" + text[2:]: false, "x_": false, "": false,
		text[:10] + "A" + text[11:]: text[10] == 'A',
	} {
		if got := apikeys.Issuable("x_", other); got != want {
			t.Errorf("Issuable(%q) = %t, want %t", other, got, want)
		}
	}
}
