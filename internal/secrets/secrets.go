// Package secrets encrypts the values that nobody may read from a copy of the store: the secrets
// that sign requests, and the credentials of endpoints. It also manages the encryption keys: where
// they are stored, and how they are rotated.
//
//	s, err := secrets.Open(ctx, location, store, log)
//	err = s.EncryptSecret(ctx, &secret, "whsec_…") // secret.Encrypted is stored
//	text, err := s.DecryptSecret(ctx, secret)
//
// A [Vault] encrypts and decrypts with a [Keyring]. A [Location] says where the keyring is: in a
// setting, in a file, or in the database. A [Rotation] adds a key to the keyring and encrypts every
// stored value again.
//
// It promises:
//
//   - A value is encrypted with AES-256-GCM under the newest key of the keyring,
//     with a nonce of its own. The encrypted value contains the id of the key.
//     Any key of the keyring decrypts.
//   - A value decrypts only in the row that it was encrypted for, as a secret or as
//     credentials. A value that was moved to another row, cut or changed is an
//     error.
//   - A vault that follows a source reads the source before each encryption, and
//     before it reports a key as unknown. So a key that is added to the source is
//     used from then on. No value is encrypted with a key that only one process has.
//   - A key that a vault has read once decrypts as long as the vault lives.
//   - If a rotation dropped the key of a value that a server has in memory, the
//     server reads the value again from the store. So a server that never read
//     the dropped key decrypts the value too.
//   - If the keys do not decrypt the stored values, the start fails. It never
//     continues with new keys.
//   - No error and no text of a Keyring or a KeyID contains a byte of a key or of a
//     plain text.
//
// It does not protect against a reader of the keyring or of the process memory, and it does not
// hide the lengths of plain texts.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/store"
)

const (
	checkedValues = 10_000           // most values that the check at the start reads
	batchSize     = 500              // values that are read and written in one call
	callTime      = 15 * time.Second // limit of one Reencrypt, below the time-outs of HTTP clients
)

// Secrets is the vault of one store, with access to the store's encrypted values.
type Secrets struct {
	*Vault

	values store.Encryption
	source source
	log    *slog.Logger
}

// Open returns the vault of a store. If Postrider manages the keys and nothing is encrypted yet,
// Open creates the first keyring. If the keys do not decrypt the stored values, it returns an
// error.
func Open(ctx context.Context, l Location, values store.Encryption, log *slog.Logger) (*Secrets, error) {
	from, err := l.find(ctx, values)
	if err != nil {
		return nil, err
	}
	v, err := Follow(ctx, from.read)
	if err != nil {
		return nil, err
	}
	s := &Secrets{Vault: v, values: values, source: from, log: log}
	v.stored = s.stored
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	log.InfoContext(ctx, "encryption keys are loaded", "newest", s.Newest().String(), "from", from.String())
	if !l.Shared {
		return s, nil
	}
	return s, s.warnOfKeysInDatabase(ctx)
}

// warnOfKeysInDatabase warns if the database holds the keys of its own values. Such keys protect a
// copy of single tables, but not a copy of the whole database.
func (s *Secrets) warnOfKeysInDatabase(ctx context.Context) error {
	if _, inDatabase := s.source.(databaseSource); inDatabase {
		s.log.WarnContext(ctx, "encryption keys are kept in the database beside the encrypted values, which protects partial copies only",
			"flag", "--secrets-key-file")
		return nil
	}
	keptKeyring, err := markExternal(ctx, s.values)
	if keptKeyring {
		s.log.WarnContext(ctx, "encryption keys come from a setting, but older keys are still in the database",
			"command", "postrider secrets rotate-key --drop-old")
	}
	return err
}

// check decrypts one value of each key that it meets. An unknown key ends the start. A single
// damaged value is only logged, because it must not stop the server for all the others.
func (s *Secrets) check(ctx context.Context) error {
	decrypted := map[KeyID]bool{}
	checked := 0
	return s.batches(ctx, func(list []store.EncryptedValue) (more bool, err error) {
		for _, value := range list {
			key, _ := KeyOf(value.Bytes)
			if decrypted[key] {
				continue
			}
			_, err := s.Vault.Reencrypt(ctx, value)
			if _, unknown := errors.AsType[*UnknownKeyError](err); unknown {
				return false, fmt.Errorf("the encryption keys of %s do not decrypt the stored values: %w; %s", s.source, err, nameThem)
			}
			if err != nil {
				s.logUnreadable(ctx, value, err)
			}
			decrypted[key] = err == nil
		}
		checked += len(list)
		return checked < checkedValues, nil
	})
}

// stored returns an encrypted value as it is stored now; nil if it is no longer stored.
func (s *Secrets) stored(ctx context.Context, id store.EncryptedID) ([]byte, error) {
	list, err := s.values.EncryptedValues(ctx, id.Before(), 1)
	if err != nil || len(list) == 0 || list[0].ID != id {
		return nil, err
	}
	return list[0].Bytes, nil
}

// logUnreadable logs the ids of a value that cannot be decrypted, never its bytes.
func (s *Secrets) logUnreadable(ctx context.Context, value store.EncryptedValue, err error) {
	s.log.ErrorContext(ctx, "an encrypted value cannot be decrypted", "value", value, "error", err)
}

// batches calls do with all encrypted values in the order of their ids, until do returns false or
// an error.
func (s *Secrets) batches(ctx context.Context, do func([]store.EncryptedValue) (more bool, err error)) error {
	for after := (store.EncryptedID{}); ; {
		list, err := s.values.EncryptedValues(ctx, after, batchSize)
		if err != nil {
			return fmt.Errorf("read encrypted values: %w", err)
		}
		if len(list) == 0 {
			return nil
		}
		if more, err := do(list); err != nil || !more {
			return err
		}
		after = list[len(list)-1].ID
	}
}

// Reencrypted is the result of encrypting the stored values again.
type Reencrypted struct {
	Key         string // id of the newest key
	Checked     int    // values that the last pass has read
	Reencrypted int    // values that were encrypted again with the newest key
	Unreadable  int    // values that no key decrypts; the log names them
	Done        bool   // all readable values have the newest key; false: call again
}

// Reencrypt encrypts the values of older keys again with the newest key. It works for about
// callTime at most. It repeats its pass over the values until one pass finds nothing to do, because
// servers may store values of an older key meanwhile.
func (s *Secrets) Reencrypt(ctx context.Context) (Reencrypted, error) {
	until := time.Now().Add(callTime)
	for sum := 0; ; {
		r, err := s.pass(ctx, until)
		sum += r.Reencrypted
		r.Reencrypted = sum
		if err != nil || r.Done || time.Now().After(until) {
			return r, err
		}
	}
}

// pass reads every value once and encrypts the values of older keys again. r.Done is true if it
// found no such value; values that it cannot decrypt do not count. pass reads the keyring before
// each batch, because another rotation may add a key.
func (s *Secrets) pass(ctx context.Context, until time.Time) (Reencrypted, error) {
	if err := s.Refresh(ctx); err != nil {
		return Reencrypted{}, err
	}
	r := Reencrypted{Key: s.Newest().String(), Done: true}
	return r, s.batches(ctx, func(list []store.EncryptedValue) (bool, error) {
		if err := s.Refresh(ctx); err != nil {
			return false, err
		}
		if key := s.Newest().String(); key != r.Key {
			r.Key, r.Done = key, false // a value that this pass skipped may have an older key now
		}
		if err := s.reencryptBatch(ctx, list, &r); err != nil {
			return false, err
		}
		r.Checked += len(list)
		if time.Now().After(until) {
			r.Done = false
		}
		return time.Now().Before(until), nil
	})
}

// reencryptBatch encrypts the values of older keys again and counts them in r. The store replaces a
// value only if it still has the old bytes. A value that changed meanwhile is left to the next
// pass.
func (s *Secrets) reencryptBatch(ctx context.Context, list []store.EncryptedValue, r *Reencrypted) error {
	var changes []store.Reencryption
	for _, value := range list {
		if key, err := KeyOf(value.Bytes); err == nil && key.String() == r.Key {
			continue
		}
		bytes, err := s.Vault.Reencrypt(ctx, value)
		if err != nil {
			s.logUnreadable(ctx, value, err)
			r.Unreadable++
			continue
		}
		changes = append(changes, store.Reencryption{ID: value.ID, Old: value.Bytes, New: bytes})
	}
	if len(changes) == 0 {
		return nil
	}
	r.Done = false
	n, err := s.values.Reencrypt(ctx, changes)
	if err != nil {
		return fmt.Errorf("reencrypt: %w", err)
	}
	r.Reencrypted += n
	return nil
}
