package secrets_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// TestAServerDecryptsValuesWhoseKeyItNeverMet has two servers on one database. One server encrypts
// values with a key that is dropped before the other server needs it.
func TestAServerDecryptsValuesWhoseKeyItNeverMet(t *testing.T) {
	t.Parallel()
	values := memory.New(memory.Options{})
	database := secrets.Location{Shared: true}
	open := func() *secrets.Secrets {
		s, err := secrets.Open(t.Context(), database, values, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	rotate := func(r secrets.Rotation) {
		if _, err := r.Run(t.Context(), database, values); err != nil {
			t.Fatal(err)
		}
	}
	writer, sender := open(), open()
	rotate(secrets.Rotation{})

	account := postrider.Account{ID: postrider.AccountID{1}}
	endpoint := postrider.Endpoint{
		ID: postrider.EndpointID{2}, Account: account.ID, Status: postrider.EndpointEnabled,
		Policy: postrider.DefaultPolicy(),
	}
	kept, revoked := postrider.Secret{ID: postrider.SecretID{3}, Endpoint: endpoint.ID},
		postrider.Secret{ID: postrider.SecretID{4}, Endpoint: endpoint.ID}
	credentials := postrider.Credentials{Auth: "hush"}
	archiveKey, encryptedKey, err := writer.NewArchiveKey(t.Context(), account.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		writer.EncryptSecret(t.Context(), &kept, text), writer.EncryptSecret(t.Context(), &revoked, text),
		writer.EncryptCredentials(t.Context(), &endpoint, credentials), values.PutAccount(t.Context(), account),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := values.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: endpoint, Secrets: []postrider.Secret{kept}}); err != nil {
		t.Fatal(err)
	}
	if _, err := values.PutArchiveKey(t.Context(), account.ID, encryptedKey); err != nil {
		t.Fatal(err)
	}

	rotate(secrets.Rotation{DropOld: true, Grace: time.Nanosecond})
	wantDecrypted(t, sender.Vault, kept)
	if got, err := sender.DecryptCredentials(t.Context(), endpoint); err != nil || got.Auth != credentials.Auth {
		t.Errorf("DecryptCredentials = %v, %v; want those of the endpoint", got, err)
	}
	if got, err := sender.DecryptArchiveKey(t.Context(), account.ID, encryptedKey); err != nil || got != archiveKey {
		t.Errorf("DecryptArchiveKey = %v, want the key", err)
	}
	_, err = sender.DecryptSecret(t.Context(), revoked)
	if unknown, ok := errors.AsType[*secrets.UnknownKeyError](err); !ok {
		t.Errorf("DecryptSecret of a secret that is not stored = %v, want that its key is unknown", err)
	} else if key, _ := secrets.KeyOf(revoked.Encrypted); unknown.Key != key {
		t.Errorf("the unknown key is %s, want %s", unknown.Key, key)
	}
}
