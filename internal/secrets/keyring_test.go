package secrets_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/postrider/postrider/internal/secrets"
)

func TestAKeyringIsReadBack(t *testing.T) {
	t.Parallel()
	keyring := withNewKey(t, withNewKey(t, newKeyring(t)))
	written := string(keyring.Format())
	for name, text := range map[string]string{
		"as it was written":    written,
		"with commas":          strings.ReplaceAll(strings.TrimSpace(written), "\n", ","),
		"with spaces":          " " + strings.ReplaceAll(written, "\n", " , \r\n\n") + " ",
		"of capital digits":    strings.ToUpper(written[:16]) + written[16:],
		"without the last end": strings.TrimSpace(written),
	} {
		got, err := secrets.Parse([]byte(text))
		if err != nil || string(got.Format()) != written {
			t.Errorf("%s: Parse = %s, %v; want %s", name, got, err, keyring)
		}
	}
	ids := keyring.IDs()
	if len(ids) != 3 || ids[0] != keyring.Newest() || !keyring.Has(ids[2]) || keyring.Has(secrets.KeyID{}) {
		t.Errorf("IDs = %v, Newest = %s", ids, keyring.Newest())
	}
	if got := keyring.NewestOnly().IDs(); !slices.Equal(got, ids[:1]) {
		t.Errorf("NewestOnly = %v, want %v", got, ids[:1])
	}
	if got := keyring.NewestLast().IDs(); !slices.Equal(got, []secrets.KeyID{ids[1], ids[2], ids[0]}) {
		t.Errorf("NewestLast = %v, of %v", got, ids)
	}
}

func TestAnInvalidKeyringIsRefusedWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	const id = "0123456789abcdef"
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"", "the keyring has no key"},
		"spaces and commas": {" \n,, ", "the keyring has no key"},
		"no id":             {key, "key 1 of the keyring: must be 16 hexadecimal"},
		"a short id":        {id[:15] + ":" + key, "key 1 of the keyring: must be 16 hexadecimal"},
		"an id of letters":  {"g123456789abcdef:" + key, "key 1 of the keyring: must be 16 hexadecimal"},
		"a short key":       {id + ":" + base64.StdEncoding.EncodeToString(make([]byte, 31)), "key 1 of the keyring: must be"},
		"a long key":        {id + ":" + base64.StdEncoding.EncodeToString(make([]byte, 33)), "key 1 of the keyring: must be"},
		"a URL's base64":    {id + ":" + strings.Repeat("_", 43) + "=", "key 1 of the keyring: must be"},
		"bits too many":     {id + ":" + key[:42] + "/=", "key 1 of the keyring: must be"},
		"the second":        {id + ":" + key + "\nx" + id + ":" + key, "key 2 of the keyring: must be"},
		"twice":             {id + ":" + key + "," + id + ":" + key, "key 2 of the keyring: id " + id + " occurs twice"},
	} {
		_, err := secrets.Parse([]byte(tt.text))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: Parse = %v, want %q", name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: Parse = %v, which quotes the key", name, err)
		}
	}
}

func TestRandomnessThatEndsMakesNoKey(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 7, 8, 39} {
		if keyring, err := secrets.NewKeyring(bytes.NewReader(make([]byte, n))); err == nil {
			t.Errorf("NewKeyring of %d random bytes = %s", n, keyring)
		}
	}
	broken := errors.New("broken")
	if _, err := secrets.NewKeyring(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("NewKeyring = %v, want the reader's error", err)
	}
}

func FuzzParse(f *testing.F) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	f.Add("0123456789abcdef:" + key + "\nfedcba9876543210:" + key)
	f.Add("0123456789abcdef:" + key + ",")
	f.Add(":")
	f.Fuzz(func(t *testing.T, text string) {
		keyring, err := secrets.Parse([]byte(text))
		if err != nil {
			return
		}
		again, err := secrets.Parse(keyring.Format())
		if err != nil || !bytes.Equal(again.Format(), keyring.Format()) || len(keyring.IDs()) == 0 {
			t.Errorf("Parse(%q) = %s, which reads back as %s, %v", text, keyring, again, err)
		}
	})
}
