package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/vault"
)

// Rotation is a change of the sealing keys, while servers run or not.
type Rotation struct {
	DropOld bool          // afterwards, keep the newest key alone
	Grace   time.Duration // with DropOld: for what servers have begun to seal with an older key; default 1 minute

	// Reseal seals what is stored anew, until it is done. The server that has the
	// store open does it; nil: the store is opened for that.
	Reseal func(ctx context.Context) (Resealed, error)

	Log *slog.Logger // without Reseal: names what cannot be opened; default: discard
}

// Resealed is what sealing anew did.
type Resealed = api.Resealed

// Rotated is what a rotation did.
type Rotated struct {
	Resealed

	Home    string   // where the sealing keys are kept
	Dropped []string // ids of the keys that are no longer kept
	Set     []string // values to give the setting in turn, everywhere, where the keys are given as a text
}

// RotateKey adds a new key to the sealing keys of the store, seals everything
// with it, and keeps the old ones, or drops them. Servers that run seal with
// the new key from the moment that it is kept, and open what is sealed with
// either. Keys that are given as a text cannot be added to: then it returns
// what to set, and seals anew what is sealed with a key that is not the first.
// A data folder without a store is an error: nothing is made there.
func RotateKey(ctx context.Context, c StoreConfig, r Rotation) (Rotated, error) {
	if r.Reseal != nil {
		home, err := c.ringHomeOfServer()
		if err != nil {
			return Rotated{}, err
		}
		return r.rotate(ctx, home)
	}
	if err := c.mustHaveStore(); err != nil {
		return Rotated{}, err
	}
	opened, err := openStore(ctx, c, briefly())
	if err != nil {
		return Rotated{}, err
	}
	done, err := r.straight(ctx, c, opened)
	return done, errors.Join(err, opened.Close())
}

// ringHomeOfServer returns the ring of a server that has a store open which no
// other process can open.
func (c StoreConfig) ringHomeOfServer() (ringHome, error) {
	if c.SecretsKey != "" {
		return givenRing(c.SecretsKey), nil
	}
	file := c.SealingKeysFile()
	if file == "" {
		return nil, errNoRing
	}
	return fileRing(file), nil
}

func (r Rotation) straight(ctx context.Context, c StoreConfig, opened store.Store) (Rotated, error) {
	s, err := openSealing(ctx, c, opened, cmp.Or(r.Log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return Rotated{}, err
	}
	r.Reseal = s.Reseal
	done, err := r.rotate(ctx, s.home)
	_, kept := s.home.(keptRing)
	if err == nil && r.DropOld && !kept {
		err = forgetKept(opened) // who moved from there has done so by now
	}
	return done, err
}

func (r Rotation) rotate(ctx context.Context, home ringHome) (Rotated, error) {
	done := Rotated{Home: home.String()}
	ring, err := home.read()
	if err != nil {
		return done, err
	}
	// The first time shows that whoever seals has this ring, and repairs what an
	// earlier rotation left.
	if done.Resealed, err = r.reseal(ctx, ring); err != nil {
		return done, err
	}
	if _, given := home.(givenRing); given {
		return r.advise(done, ring)
	}
	grown, err := ring.Grow(rand.Reader)
	if err == nil {
		err = home.replace(ring, grown)
	}
	if err != nil {
		return done, err
	}
	if done.Resealed, err = r.reseal(ctx, grown); err != nil || !r.DropOld {
		return done, err
	}
	return r.drop(ctx, home, done)
}

// reseal seals everything with the ring's newest key.
func (r Rotation) reseal(ctx context.Context, ring vault.Ring) (sum Resealed, err error) {
	for {
		one, err := r.Reseal(ctx)
		if err != nil {
			return sum, err
		}
		one.Resealed += sum.Resealed
		sum = one
		if newest := ring.Newest().String(); sum.Key != newest {
			return sum, fmt.Errorf("the server seals with key %s, and the newest key here is %s: it is given other sealing keys", sum.Key, newest)
		}
		if sum.Done {
			return sum, nil
		}
	}
}

// drop takes the old keys out of the ring, once nothing is sealed with them and
// nobody can be about to store what is.
func (r Rotation) drop(ctx context.Context, home ringHome, done Rotated) (Rotated, error) {
	select {
	case <-ctx.Done():
		return done, fmt.Errorf("wait before the old keys are dropped: %w", ctx.Err())
	case <-time.After(cmp.Or(r.Grace, time.Minute)):
	}
	ring, err := home.read()
	if err != nil {
		return done, err
	}
	last, err := r.reseal(ctx, ring)
	last.Resealed += done.Resealed.Resealed
	done.Resealed = last
	if err != nil {
		return done, err
	}
	if done.Unreadable > 0 {
		return done, fmt.Errorf("the old keys stay: %d of what is sealed cannot be opened, see the log", done.Unreadable)
	}
	if err := home.replace(ring, ring.Alone()); err != nil {
		return done, err
	}
	for _, id := range ring.IDs()[1:] {
		done.Dropped = append(done.Dropped, id.String())
	}
	return done, nil
}

// advise says how to rotate keys that are given as a text: servers must be able
// to open with the new key before the first of them seals with it.
func (r Rotation) advise(done Rotated, ring vault.Ring) (Rotated, error) {
	if r.DropOld && done.Unreadable > 0 {
		return done, fmt.Errorf("the old keys must stay: %d of what is sealed cannot be opened, see the log", done.Unreadable)
	}
	if r.DropOld {
		done.Set = []string{asSetting(ring.Alone())}
		return done, nil
	}
	if done.Resealed.Resealed > 0 {
		return done, nil // it was given a new key before, and this was the second step
	}
	grown, err := ring.Grow(rand.Reader)
	if err != nil {
		return done, err
	}
	done.Set = []string{asSetting(grown.Demoted()), asSetting(grown)}
	return done, nil
}

// asSetting returns a ring in one line.
func asSetting(ring vault.Ring) string {
	return strings.ReplaceAll(strings.TrimSpace(string(ring.Format())), "\n", ",")
}

// NewKeyFile writes a new sealing key into a file that must not be there.
func NewKeyFile(path string) error {
	ring, err := vault.NewRing(rand.Reader)
	if err != nil {
		return err
	}
	return writeKeyFile(path, ring)
}

// ExportKeys writes the sealing keys of the store into a file that must not be
// there.
func ExportKeys(ctx context.Context, c StoreConfig, path string) error {
	if file := c.SealingKeysFile(); file != "" || c.SecretsKey != "" {
		home, err := c.ringHomeOfServer()
		if err != nil {
			return err
		}
		return exportRing(home, path)
	}
	opened, err := openStore(ctx, c, briefly())
	if err != nil {
		return err
	}
	home, err := c.ringHome(ctx, opened)
	if err == nil {
		err = exportRing(home, path)
	}
	return errors.Join(err, opened.Close())
}

func exportRing(home ringHome, path string) error {
	ring, err := home.read()
	if err != nil {
		return err
	}
	return writeKeyFile(path, ring)
}

func writeKeyFile(path string, ring vault.Ring) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep sealing keys: %s is there already", path)
	}
	return fileRing(path).replace(vault.Ring{}, ring)
}
