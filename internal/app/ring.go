package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/vault"
)

// ringHome is where the sealing keys of a store are kept. The zero ring stands
// for none.
type ringHome interface {
	fmt.Stringer // the place, for people

	// read returns the ring as it is kept now.
	read() (vault.Ring, error)

	// replace keeps now in place of was. Where another than was is kept, it is an
	// error, and nothing was changed.
	replace(was, now vault.Ring) error
}

var (
	errRingMoved = errors.New("the sealing keys were changed by somebody else meanwhile; try again")
	errRingGiven = errors.New("the sealing keys are given from outside")
)

// SealingKeysFile returns the file that the sealing keys are kept in; empty:
// they are given as a text, or kept in the database.
func (c StoreConfig) SealingKeysFile() string {
	switch {
	case c.SecretsKey != "":
		return ""
	case c.SecretsKeyFile != "":
		return c.SecretsKeyFile
	case c.DatabaseURL != "" || c.DatabaseURLFile != "":
		return ""
	}
	return filepath.Join(c.DataDir, "secrets.key")
}

// ringHome returns where the settings say that the ring is. A store that has
// nothing sealed gets a ring of its own, unless they name one.
func (c StoreConfig) ringHome(ctx context.Context, seals store.Seals) (ringHome, error) {
	file := c.SealingKeysFile()
	switch {
	case c.SecretsKey != "":
		return givenRing(c.SecretsKey), nil
	case c.SecretsKeyFile != "":
		return fileRing(file), nil
	case file != "":
		_, err := os.Lstat(file)
		if errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(file + ".new") // of a first start that was cut short: who has the store open is alone
			err = makeRing(ctx, seals, fileRing(file))
		}
		return fileRing(file), err
	}
	kept := keptRing{seals}
	ring, err := kept.look()
	if err == nil && len(ring) == 0 {
		err = makeRing(ctx, seals, kept)
	}
	if errors.Is(err, errRingMoved) {
		err = nil // another node made it in the same moment
	}
	return kept, err
}

// makeRing keeps a new ring at home, unless a ring must have been there.
func makeRing(ctx context.Context, seals store.Seals, home ringHome) error {
	sealed, err := seals.Sealed(ctx, store.SealedID{}, 1)
	if err != nil {
		return fmt.Errorf("look for what is sealed: %w", err)
	}
	if len(sealed) > 0 {
		key, err := vault.KeyOf(sealed[0].Bytes)
		if err != nil {
			return fmt.Errorf("look for what is sealed: %w", err)
		}
		return fmt.Errorf("%w: there are secrets sealed with key %s, and no sealing keys in %s; %s", errNoRing, key, home, whereToName)
	}
	ring, err := vault.NewRing(rand.Reader)
	if err != nil {
		return err
	}
	return home.replace(vault.Ring{}, ring)
}

// errNoRing ends a start without the keys of what is stored.
var errNoRing = errors.New("the sealing keys of this store are missing")

const whereToName = "name the file that has them with --secrets-key-file, or set POSTRIDER_SECRETS_KEY"

// givenRing is the text of a ring, from the environment or a file of settings.
type givenRing string

func (givenRing) String() string { return variable("secrets-key") }

func (r givenRing) read() (vault.Ring, error) { return vault.Parse([]byte(r)) }

func (givenRing) replace(vault.Ring, vault.Ring) error { return errRingGiven }

// fileRing is the path of a file that holds a ring.
type fileRing string

func (r fileRing) String() string { return string(r) }

// read refuses a file that others may read: what they copied is not secret.
func (r fileRing) read() (vault.Ring, error) {
	stat, err := os.Stat(string(r))
	if err != nil {
		return vault.Ring{}, fmt.Errorf("read sealing keys: %w", err)
	}
	if stat.Mode().Perm()&0o077 != 0 {
		return vault.Ring{}, fmt.Errorf("read sealing keys: %s may be read by others; chmod 600 it", r)
	}
	text, err := os.ReadFile(string(r))
	if err != nil {
		return vault.Ring{}, fmt.Errorf("read sealing keys: %w", err)
	}
	ring, err := vault.Parse(text)
	if err != nil {
		return vault.Ring{}, fmt.Errorf("read sealing keys: %s: %w", r, err)
	}
	return ring, nil
}

// replace writes the new text beside the file and renames it. That only one can
// make the file beside it is also what keeps two rotations apart.
func (r fileRing) replace(was, now vault.Ring) error {
	path := string(r)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep sealing keys: %w", err)
	}
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep sealing keys: %s.new is there: another change is under way, or one was cut short; remove it then", path)
	}
	if err != nil {
		return fmt.Errorf("keep sealing keys: %w", err)
	}
	_, err = next.Write(now.Format())
	if old, missing := os.Stat(path); err == nil && missing == nil {
		err = giveTo(next, old)
	}
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = r.unchanged(was)
	}
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil { // later the name may be another change's
		return fmt.Errorf("keep sealing keys: %w", errors.Join(err, os.Remove(next.Name())))
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("keep sealing keys: %w", err)
	}
	return nil
}

func (r fileRing) unchanged(was vault.Ring) error {
	is, err := r.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // is is the zero ring
	}
	if err == nil && !bytes.Equal(is.Format(), was.Format()) {
		err = errRingMoved
	}
	return err
}

// giveTo makes the file that of who owned the one that it replaces: a server
// must be able to read what an administrator has changed.
func giveTo(f *os.File, was fs.FileInfo) error {
	owner, ok := was.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// syncFolder makes a rename last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// elsewhere is kept in the database in place of a ring once the servers are
// given theirs, so that one that is not does not begin another.
const elsewhere = "elsewhere\n"

// keptRing is the ring in the database, which all nodes share.
type keptRing struct{ seals store.Seals }

func (keptRing) String() string { return "the database" }

// keepTime bounds a look at what is kept: who seals or opens waits for it.
const keepTime = 5 * time.Second

// never is kept by nobody, so that putting it in its own place changes nothing
// and tells what is kept.
var never = []byte("never\n")

// look returns the text that is kept; empty: none.
func (r keptRing) look() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	text, err := r.seals.KeepRing(ctx, never, never)
	if err != nil {
		return nil, fmt.Errorf("read sealing keys: %w", err)
	}
	return text, nil
}

func (r keptRing) read() (vault.Ring, error) {
	text, err := r.look()
	switch {
	case err != nil:
		return vault.Ring{}, err
	case len(text) == 0 || string(text) == elsewhere:
		return vault.Ring{}, fmt.Errorf("%w: they are no longer kept in the database; %s", errNoRing, whereToName)
	}
	ring, err := vault.Parse(text)
	if err != nil {
		return vault.Ring{}, fmt.Errorf("read sealing keys of the database: %w", err)
	}
	return ring, nil
}

func (r keptRing) replace(was, now vault.Ring) error { return r.swap(was.Format(), now.Format()) }

func (r keptRing) swap(was, now []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	is, err := r.seals.KeepRing(ctx, was, now)
	if err != nil {
		return fmt.Errorf("keep sealing keys: %w", err)
	}
	if !bytes.Equal(is, now) {
		return errRingMoved
	}
	return nil
}

// keepElsewhere leaves a note in a database that its ring is given from
// outside, unless one is kept there; then it reports that.
func keepElsewhere(seals store.Seals) (stillKept bool, err error) {
	kept := keptRing{seals}
	switch err := kept.swap(nil, []byte(elsewhere)); {
	case errors.Is(err, errRingMoved):
		text, err := kept.look()
		return err == nil && string(text) != elsewhere, err
	default:
		return false, err
	}
}

// forgetKept takes the ring out of a database whose servers are given theirs.
func forgetKept(seals store.Seals) error {
	kept := keptRing{seals}
	text, err := kept.look()
	if err != nil || string(text) == elsewhere {
		return err
	}
	return kept.swap(text, []byte(elsewhere))
}
