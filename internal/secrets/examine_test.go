package secrets_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

// shelf is a store with only a keyring and encrypted values.
type shelf struct {
	keyring []byte
	values  []store.EncryptedValue
}

func (s shelf) Keyring(context.Context) ([]byte, error) { return s.keyring, nil }

func (s shelf) EncryptedValues(_ context.Context, after store.EncryptedID, _ int) ([]store.EncryptedValue, error) {
	for i, v := range s.values {
		if v.ID.Compare(after) > 0 {
			return s.values[i:], nil
		}
	}
	return nil, nil
}

func TestExamineKeys(t *testing.T) {
	t.Parallel()
	keyring := newKeyring(t)
	rotated := withNewKey(t, keyring)
	first, second := value(encrypted(t, secrets.New(keyring), 1)), value(encrypted(t, secrets.New(rotated), 2))
	damaged := value(encrypted(t, secrets.New(keyring), 3))
	damaged.Bytes[len(damaged.Bytes)-1] ^= 1
	both := []store.EncryptedValue{first, second}

	dir := t.TempDir()
	file, open := filepath.Join(dir, "keys"), filepath.Join(dir, "open")
	for path, mode := range map[string]os.FileMode{file: 0o600, open: 0o644} {
		if err := os.WriteFile(path, rotated.Format(), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		location           secrets.Location
		values             secrets.Reader
		keys, read, broken int
		err                string // part of the error's text
	}{
		"a file":                      {secrets.Location{File: file}, shelf{values: both}, 2, 2, 0, ""},
		"a file without a store":      {secrets.Location{File: file}, nil, 2, 0, 0, ""},
		"a file that others may read": {secrets.Location{File: open}, shelf{values: both}, 0, 0, 0, "may be read by others; chmod 600"},
		"a file that is missing":      {secrets.Location{File: filepath.Join(dir, "none")}, nil, 0, 0, 0, "there is no keyring yet"},
		"a file that a start makes":   {secrets.Location{File: filepath.Join(dir, "none"), Create: true}, nil, 0, 0, 0, ""},
		"a file that was lost": {
			secrets.Location{File: filepath.Join(dir, "none"), Create: true},
			shelf{values: both},
			0, 0, 0,
			"do not decrypt",
		},
		"a text": {secrets.Location{Text: string(rotated.Format()), Name: "X"}, shelf{values: both}, 2, 2, 0, ""},
		"a key is missing": {
			secrets.Location{Text: string(keyring.Format()), Name: "X"},
			shelf{values: both},
			1, 0, 0,
			rotated.Newest().String(),
		},
		"a damaged value":             {secrets.Location{File: file}, shelf{values: append(both, damaged)}, 2, 3, 1, ""},
		"the database":                {secrets.Location{Shared: true}, shelf{rotated.Format(), both}, 2, 2, 0, ""},
		"a database without tables":   {secrets.Location{Shared: true}, nil, 0, 0, 0, ""},
		"a database without its keys": {secrets.Location{Shared: true}, shelf{[]byte("external\n"), both}, 0, 0, 0, "--secrets-key-file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := secrets.Examine(t.Context(), tt.location, tt.values)
			if found.Keys != tt.keys || found.Values != tt.read || found.Unreadable != tt.broken || found.Unchecked != nil ||
				found.InDatabase != tt.location.Shared || found.Exposed != (tt.location.File == open) || found.Where == "" {
				t.Errorf("Examine = %+v", found)
			}
			if (found.Err == nil) != (tt.err == "") || found.Err != nil && !strings.Contains(found.Err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", found.Err, tt.err)
			}
			if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
				t.Error("it made a file")
			}
		})
	}
}
