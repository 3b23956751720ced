package secrets

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

	"github.com/postrider/postrider/internal/store"
)

// Location says where the encryption keys of a store are. If Text is set, it is used; otherwise
// File; otherwise the database.
type Location struct {
	Text   string // the text of the keyring; empty: not given
	Name   string // name of the setting with Text
	File   string // path of the keyring's file; empty: none
	Create bool   // whether File is created at the first start
	Shared bool   // whether the store is a database that several servers share
}

// source reads and replaces a keyring. Several processes can change a file or the database, so
// replace is given the keyring that it replaces.
type source interface {
	fmt.Stringer // String returns the place, for logs and errors

	// read returns the current keyring. If there is none yet, the error is errNone.
	read(ctx context.Context) (Keyring, error)

	// replace stores next instead of old (zero: none). If the stored keyring is not old, replace
	// changes nothing and returns errChanged.
	replace(ctx context.Context, old, next Keyring) error
}

var (
	// errNone is the error of read for a source that holds no keyring. errChanged says that another
	// process replaced the keyring first. errGiven says that this program cannot change the setting
	// with the keys.
	errNone    = errors.New("there is no keyring yet")
	errChanged = errors.New("the encryption keys were changed by somebody else meanwhile; try again")
	errGiven   = errors.New("the encryption keys are given as a text")
)

// errExposed says that a file of keys is refused because of its mode.
var errExposed = errors.New("may be read by others")

// ErrMissing says that no setting names the keys that the stored values need.
var ErrMissing = errors.New("the encryption keys of this store are missing")

const nameThem = "name the file that has them with --secrets-key-file, or set POSTRIDER_SECRETS_KEY"

// source returns the source that the location names, without reading it. values is needed only for
// the database.
func (l Location) source(values store.Encryption) source {
	switch {
	case l.Text != "":
		return textSource{l.Text, l.Name}
	case l.File != "":
		return fileSource(l.File)
	}
	return databaseSource{values}
}

// Check returns the error of a text or a file that holds no valid keyring.
func (l Location) Check() (err error) {
	if l.Text != "" {
		_, err = Parse([]byte(l.Text))
	} else if l.File != "" {
		_, err = fileSource(l.File).readFile()
	}
	return err
}

// Missing returns the keys of needed that the text or the file does not have. A file that does not
// exist has no keys.
func (l Location) Missing(ctx context.Context, needed []KeyID) (missing []KeyID, err error) {
	keyring, err := l.source(nil).read(ctx)
	if err != nil && !errors.Is(err, errNone) {
		return nil, err
	}
	for _, id := range needed {
		if !keyring.Has(id) {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// managed reports whether Postrider creates the keyring itself, in the data folder or in the
// database, when nothing is encrypted yet. Keys that an operator named are never created: a wrong
// name would go unnoticed.
func (l Location) managed() bool { return l.Text == "" && (l.File == "" || l.Create) }

// find returns the source of the keyring, and creates the first keyring if the
// store has no encrypted values.
func (l Location) find(ctx context.Context, values store.Encryption) (source, error) {
	from := l.source(values)
	if !l.managed() {
		return from, nil
	}
	if _, err := from.read(ctx); !errors.Is(err, errNone) {
		return from, err
	}
	if l.File != "" {
		// An interrupted first start left this file. The store is locked, so nobody else writes it
		// now.
		_ = os.Remove(l.File + ".new")
	}
	err := createKeyring(ctx, values, from)
	if errors.Is(err, errChanged) {
		return from, nil // another node created the keyring at the same time
	}
	return from, err
}

// createKeyring stores the first keyring. If there are encrypted values already, their key is lost
// or in another place. A new key would hide that, so createKeyring returns ErrMissing.
func createKeyring(ctx context.Context, values store.Encryption, to source) error {
	list, err := values.EncryptedValues(ctx, store.EncryptedID{}, 1)
	if err != nil {
		return fmt.Errorf("look for encrypted values: %w", err)
	}
	if len(list) > 0 {
		key, err := KeyOf(list[0].Bytes)
		if err != nil {
			return fmt.Errorf("look for encrypted values: %w", err)
		}
		return fmt.Errorf("%w: there are secrets encrypted with key %s, and no encryption keys in %s; %s", ErrMissing, key, to, nameThem)
	}
	keyring, err := NewKeyring(rand.Reader)
	if err != nil {
		return err
	}
	return to.replace(ctx, Keyring{}, keyring)
}

// textSource is a keyring in a setting.
type textSource struct{ text, name string }

func (s textSource) String() string { return s.name }

func (s textSource) read(context.Context) (Keyring, error) { return Parse([]byte(s.text)) }

func (textSource) replace(context.Context, Keyring, Keyring) error { return errGiven }

// fileSource is the path of a file that holds a keyring.
type fileSource string

func (f fileSource) String() string { return string(f) }

func (f fileSource) read(context.Context) (Keyring, error) { return f.readFile() }

func (f fileSource) replace(_ context.Context, old, next Keyring) error {
	return f.replaceFile(old, next)
}

// readFile refuses a file that other users may read, because they may have copied the keys. For a
// dangling symbolic link the error is not errNone: the target may be mounted later.
func (f fileSource) readFile() (Keyring, error) {
	if _, err := os.Lstat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return Keyring{}, fmt.Errorf("read encryption keys: %w: %w", errNone, err)
	}
	stat, err := os.Stat(string(f))
	if err != nil {
		return Keyring{}, fmt.Errorf("read encryption keys: %w", err)
	}
	if stat.Mode().Perm()&0o077 != 0 {
		return Keyring{}, fmt.Errorf("read encryption keys: %s %w; chmod 600 it", f, errExposed)
	}
	text, err := os.ReadFile(string(f))
	if err != nil {
		return Keyring{}, fmt.Errorf("read encryption keys: %w", err)
	}
	keyring, err := Parse(text)
	if err != nil {
		return Keyring{}, fmt.Errorf("read encryption keys: %s: %w", f, err)
	}
	return keyring, nil
}

// replaceFile writes the new text into FILE.new, syncs it and renames it. So a crash leaves either
// the old or the new keyring. FILE.new is also the lock between two rotations: only one process can
// create it.
func (f fileSource) replaceFile(old, next Keyring) error {
	path := string(f)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write encryption keys: %w", err)
	}
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write encryption keys: %s.new exists: another change is in progress, or one was interrupted; then remove the file",
			path)
	}
	if err != nil {
		return fmt.Errorf("write encryption keys: %w", err)
	}
	_, err = file.Write(next.Format())
	if replaced, missing := os.Stat(path); err == nil && missing == nil {
		err = keepOwner(file, replaced)
	}
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = f.unchanged(old)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil { // before another process can create the file
		return fmt.Errorf("write encryption keys: %w", errors.Join(err, os.Remove(file.Name())))
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write encryption keys: %w", err)
	}
	return nil
}

// unchanged returns errChanged if the file holds another keyring than old. FILE.new exists
// meanwhile, so no other rotation can replace the file afterwards.
func (f fileSource) unchanged(old Keyring) error {
	current, err := f.readFile()
	if errors.Is(err, errNone) {
		err = nil // there is no file: current is the zero Keyring
	}
	if err == nil && !bytes.Equal(current.Format(), old.Format()) {
		err = errChanged
	}
	return err
}

// keepOwner gives the file to the owner of the file that it replaces. An administrator may rotate
// keys as root, and the server must be able to read the result.
func keepOwner(f *os.File, replaced fs.FileInfo) error {
	owner, ok := replaced.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// syncFolder makes a rename in the folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// databaseSource is the keyring in the database, which all servers share.
//
// If the servers get their keys from outside, the database holds the text external instead. A
// server that gets no keys by mistake then refuses to start. With an empty database it would create
// a second keyring.
type databaseSource struct{ values store.Encryption }

// external is stored in place of a keyring. It is no valid keyring.
const external = "external\n"

func (databaseSource) String() string { return "the database" }

// read returns ErrMissing if the database holds the text external: the server was started without
// the setting that names the keys.
func (d databaseSource) read(ctx context.Context) (Keyring, error) {
	text, err := d.values.Keyring(ctx)
	switch {
	case err != nil:
		return Keyring{}, fmt.Errorf("read encryption keys: %w", err)
	case len(text) == 0:
		return Keyring{}, errNone
	case string(text) == external:
		return Keyring{}, fmt.Errorf("%w: they are no longer kept in the database; %s", ErrMissing, nameThem)
	}
	keyring, err := Parse(text)
	if err != nil {
		return Keyring{}, fmt.Errorf("read encryption keys of the database: %w", err)
	}
	return keyring, nil
}

// replace swaps the keyring in one transaction. So if two rotations run at the same time, one of
// them gets errChanged.
func (d databaseSource) replace(ctx context.Context, old, next Keyring) error {
	stored, err := d.values.SwapKeyring(ctx, old.Format(), next.Format())
	if err != nil {
		return fmt.Errorf("write encryption keys: %w", err)
	}
	if !bytes.Equal(stored, next.Format()) {
		return errChanged
	}
	return nil
}

// markExternal stores the text external in a database without a keyring. keptKeyring reports that
// the database has a keyring, which markExternal leaves.
func markExternal(ctx context.Context, values store.Encryption) (keptKeyring bool, err error) {
	stored, err := values.SwapKeyring(ctx, nil, []byte(external))
	if err != nil {
		return false, fmt.Errorf("note that the encryption keys are given: %w", err)
	}
	return string(stored) != external, nil
}

// dropFromDatabase replaces the keyring of the database by the text external, for servers that get
// their keys from outside.
func dropFromDatabase(ctx context.Context, values store.Encryption) error {
	stored, err := values.Keyring(ctx)
	if err != nil || string(stored) == external {
		return err
	}
	if stored, err = values.SwapKeyring(ctx, stored, []byte(external)); err == nil && string(stored) != external {
		err = errChanged
	}
	return err
}
