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

// Rotation adds a new encryption key to a store and encrypts the stored values again with the new
// key. Servers may run meanwhile.
type Rotation struct {
	// DropOld says whether the old keys are dropped at the end. Backups from before the rotation
	// need the old keys.
	DropOld bool
	// Grace is the pause before the last pass, if DropOld is set. In this pause, servers store the
	// values that they encrypted with an older key. Zero: 1 minute.
	Grace time.Duration

	// Reencrypt asks the server that has the store open to encrypt the values again. Nil: Run does
	// it with the store that it gets.
	Reencrypt func(ctx context.Context) (Reencrypted, error)

	// Log gets the ids of the values that cannot be decrypted. It is used only if Reencrypt is nil.
	// Nil: no log.
	Log *slog.Logger
}

// Rotated is the result of a rotation. The embedded counts add up all rounds with the newest key.
type Rotated struct {
	Reencrypted

	Source  string   // file, setting or database with the keys
	Dropped []string // ids of the dropped keys; nil: none
	// Set has the values to set on every server, one after the other, if the keys are given as a
	// text. Nil: nothing is left to do.
	Set []string
}

// Run adds a new key to the keyring and encrypts every stored value with it. At the end it keeps
// the old keys, or drops them if DropOld is set. Running servers encrypt with the new key as soon
// as it is stored, and decrypt with the new and the old keys.
//
// Run cannot change keys that are given as a text. For these it returns the values to set, and
// encrypts again every value that is not encrypted with the first key.
func (r Rotation) Run(ctx context.Context, l Location, values store.Encryption) (Rotated, error) {
	if r.Reencrypt != nil {
		// Only a SQLite store needs Reencrypt, because only one process has it open. A SQLite store
		// never holds keys.
		if l.Text == "" && l.File == "" {
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
		err = dropFromDatabase(ctx, values) // by now all values are encrypted with the given keys
	}
	return done, err
}

// rotate does its steps in an order that keeps every value readable if it is interrupted. It
// encrypts all values with the current key, stores the new key beside the old ones, encrypts all
// values with the new key, and only then drops the old keys.
func (r Rotation) rotate(ctx context.Context, from source) (Rotated, error) {
	done := Rotated{Source: from.String()}
	keyring, err := from.read(ctx)
	if err != nil {
		return done, err
	}
	// The first round shows that the server encrypts with this keyring. It also completes an
	// earlier rotation that was interrupted.
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

// reencrypt encrypts every value with the newest key of the keyring. It calls Reencrypt until all
// are done, because the time of one call is bounded. If the newest key of the server is not the
// newest key of this keyring, reencrypt returns an error.
func (r Rotation) reencrypt(ctx context.Context, keyring Keyring) (Reencrypted, error) {
	for sum := 0; ; {
		done, err := r.Reencrypt(ctx)
		if err != nil {
			return done, err
		}
		sum += done.Reencrypted
		done.Reencrypted = sum
		if newest := keyring.Newest().String(); done.Key != newest {
			return done, fmt.Errorf("the server encrypts with key %s, and the newest key here is %s: it is given other encryption keys", done.Key,
				newest)
		}
		if done.Done {
			return done, nil
		}
	}
}

// dropOld removes the old keys from the keyring. A server may have encrypted a value with an old
// key and not stored it yet. So dropOld waits for Grace and reads all values once more.
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

// advise returns the values to set if the keys are given as a text. The first value has the new key
// at its end. All servers must be able to decrypt with the new key before the second value makes a
// server encrypt with it.
func (r Rotation) advise(done Rotated, keyring Keyring) (Rotated, error) {
	if r.DropOld && done.Unreadable > 0 {
		return done, fmt.Errorf("the old keys must stay: %d values cannot be decrypted, see the log", done.Unreadable)
	}
	if r.DropOld {
		done.Set = []string{keyring.NewestOnly().setting()}
		return done, nil
	}
	if done.Reencrypted.Reencrypted > 0 {
		return done, nil // the new key was set before this call: nothing is left to do
	}
	next, err := keyring.Add(rand.Reader)
	if err != nil {
		return done, err
	}
	done.Set = []string{next.NewestLast().setting(), next.setting()}
	return done, nil
}

// CreateFile writes a keyring with one new key into a file that must not exist.
// Only the owner may read the file.
func CreateFile(path string) error {
	keyring, err := NewKeyring(rand.Reader)
	if err != nil {
		return err
	}
	return createFile(path, keyring)
}

// Export writes the keyring of a store into a new file. It fails if the file exists. The
// argument values is needed only if the keyring is in the database; otherwise it may be nil.
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

// createFile writes the keyring into a new file. It uses Lstat, which also finds a dangling link;
// the rename would replace such a link.
func createFile(path string, keyring Keyring) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write encryption keys: %s exists already", path)
	}
	return fileSource(path).replaceFile(Keyring{}, keyring)
}
