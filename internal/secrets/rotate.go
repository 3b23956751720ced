package secrets

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// Rotation changes the encryption keys of a store, whether servers run or not.
type Rotation struct {
	DropOld bool          // keep only the newest key afterwards
	Grace   time.Duration // with DropOld: wait for values that servers are about to store under an older key; default 1 minute

	// Reencrypt asks the server that has the store open to encrypt the values
	// again. Nil: the store that is passed to Run is used.
	Reencrypt func(ctx context.Context) (Reencrypted, error)

	Log *slog.Logger // without Reencrypt: names unreadable values; default: discard
}

// Rotated is the result of a rotation.
type Rotated struct {
	Reencrypted

	Source  string   // where the encryption keys are
	Dropped []string // ids of the keys that were dropped
	Set     []string // keys given as a text: the values to set on every server, in this order
}

// Run adds a new key to the keyring and encrypts every stored value with it. The
// old keys stay, or are dropped at the end. Running servers encrypt with the new
// key as soon as it is stored, and decrypt with the new and the old keys.
//
// Keys that are given as a text cannot be changed here. Run then returns the
// values to set, and encrypts again what is not encrypted with the first key.
func (r Rotation) Run(ctx context.Context, l Location, values store.Encryption) (Rotated, error) {
	if r.Reencrypt != nil {
		if l.Text == "" && l.File == "" { // only SQLite stores, which keep no keys, are open in one process alone
			return Rotated{}, ErrMissing
		}
		return r.rotate(ctx, l.source(nil))
	}
	s, err := Open(ctx, l, values, cmp.Or(r.Log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return Rotated{}, err
	}
	r.Reencrypt = s.Reencrypt
	done, err := r.rotate(ctx, s.source)
	if err == nil && r.DropOld && l.Shared && (l.Text != "" || l.File != "") {
		err = dropFromDatabase(ctx, values) // the values were encrypted with the given keys by now
	}
	return done, err
}

func (r Rotation) rotate(ctx context.Context, from source) (Rotated, error) {
	done := Rotated{Source: from.String()}
	keyring, err := from.read(ctx)
	if err != nil {
		return done, err
	}
	// The first round shows that the server encrypts with this keyring, and
	// completes an earlier rotation that was interrupted.
	if done.Reencrypted, err = r.reencrypt(ctx, keyring); err != nil {
		return done, err
	}
	if _, given := from.(textSource); given {
		return r.advise(done, keyring)
	}
	next, err := keyring.Add(rand.Reader)
	if err == nil {
		err = from.replace(ctx, keyring, next)
	}
	if err != nil {
		return done, err
	}
	if done.Reencrypted, err = r.reencrypt(ctx, next); err != nil || !r.DropOld {
		return done, err
	}
	return r.dropOld(ctx, from, done)
}

// reencrypt encrypts every value with the newest key of the keyring.
func (r Rotation) reencrypt(ctx context.Context, keyring Keyring) (Reencrypted, error) {
	for sum := 0; ; {
		done, err := r.Reencrypt(ctx)
		if err != nil {
			return done, err
		}
		sum += done.Reencrypted
		done.Reencrypted = sum
		if newest := keyring.Newest().String(); done.Key != newest {
			return done, fmt.Errorf("the server encrypts with key %s, and the newest key here is %s: it is given other encryption keys", done.Key, newest)
		}
		if done.Done {
			return done, nil
		}
	}
}

// dropOld removes the old keys from the keyring. A server may have encrypted a
// value with an old key and not stored it yet, so dropOld waits for Grace and
// looks at all values once more.
func (r Rotation) dropOld(ctx context.Context, from source, done Rotated) (Rotated, error) {
	select {
	case <-ctx.Done():
		return done, fmt.Errorf("wait before the old keys are dropped: %w", ctx.Err())
	case <-time.After(cmp.Or(r.Grace, time.Minute)):
	}
	keyring, err := from.read(ctx)
	if err != nil {
		return done, err
	}
	before := done.Reencrypted.Reencrypted
	done.Reencrypted, err = r.reencrypt(ctx, keyring)
	done.Reencrypted.Reencrypted += before
	if err != nil {
		return done, err
	}
	if done.Unreadable > 0 {
		return done, fmt.Errorf("the old keys stay: %d values cannot be decrypted, see the log", done.Unreadable)
	}
	if err := from.replace(ctx, keyring, keyring.NewestOnly()); err != nil {
		return done, err
	}
	for _, id := range keyring.IDs()[1:] {
		done.Dropped = append(done.Dropped, id.String())
	}
	return done, nil
}

// advise returns the values to set, one after the other, where the keys are given
// as a text: all servers must be able to decrypt with the new key before the
// first one encrypts with it.
func (r Rotation) advise(done Rotated, keyring Keyring) (Rotated, error) {
	if r.DropOld && done.Unreadable > 0 {
		return done, fmt.Errorf("the old keys must stay: %d values cannot be decrypted, see the log", done.Unreadable)
	}
	if r.DropOld {
		done.Set = []string{keyring.NewestOnly().setting()}
		return done, nil
	}
	if done.Reencrypted.Reencrypted > 0 {
		return done, nil // the new key was set before, and this was the last step
	}
	next, err := keyring.Add(rand.Reader)
	if err != nil {
		return done, err
	}
	done.Set = []string{next.NewestLast().setting(), next.setting()}
	return done, nil
}

// CreateFile writes a keyring with one new key into a file that must not exist.
func CreateFile(path string) error {
	keyring, err := NewKeyring(rand.Reader)
	if err != nil {
		return err
	}
	return createFile(path, keyring)
}

// Export writes the keyring of a store into a file that must not exist. values
// is used for keys in the database alone.
func Export(ctx context.Context, l Location, values store.Encryption, path string) error {
	from := l.source(values)
	if values != nil {
		var err error
		if from, err = l.find(ctx, values); err != nil {
			return err
		}
	}
	keyring, err := from.read(ctx)
	if err != nil {
		return err
	}
	return createFile(path, keyring)
}

func createFile(path string, keyring Keyring) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write encryption keys: %s exists already", path)
	}
	return fileSource(path).replaceFile(Keyring{}, keyring)
}
