package signature_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signature"
)

// TestTheContentIsWhatIsSigned signs the content of each scheme without the Signer, and finds the
// result in the header that the content names.
func TestTheContentIsWhatIsSigned(t *testing.T) {
	t.Parallel()
	secret, err := signature.ParseSecret("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	message := signature.Message{
		ID: "evt_1", Delivery: "dlv_1", Type: "order.created", Timestamp: time.Unix(1_700_000_000, 0), Body: []byte(`{"id":1}`),
	}
	for _, scheme := range signature.Schemes() {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			format := signature.Format{Scheme: scheme}
			header := http.Header{}
			if err := signature.Sign(header, message, []signature.Key{{Secret: secret}}, format); err != nil {
				t.Fatal(err)
			}
			content, err := format.Content(message)
			if err != nil {
				t.Fatal(err)
			}
			key, hash := []byte(secret.Text()), func() hash.Hash { return sha256.New() }
			if scheme == signature.Standard || scheme == signature.Svix {
				key = []byte(strings.Repeat("k", 32))
			}
			if scheme == signature.GitHubSHA1 {
				hash = sha1.New
			}
			mac := hmac.New(hash, key)
			mac.Write([]byte(content.Prefix))
			mac.Write(message.Body)
			sum := mac.Sum(nil)
			value := header.Get(content.Header)
			if !strings.Contains(value, hex.EncodeToString(sum)) && !strings.Contains(value, base64.StdEncoding.EncodeToString(sum)) {
				t.Errorf("%s: %q is not the signature of %q and the body", content.Header, value, content.Prefix)
			}
		})
	}
}

func TestAContentNamesTheHeaderOfItsFormat(t *testing.T) {
	t.Parallel()
	message := signature.Message{ID: "evt_1", Timestamp: time.Unix(1_700_000_000, 0)}
	content, err := signature.Format{Scheme: signature.Plain, Header: "X-Mac", Prefix: "v9="}.Content(message)
	if want := (signature.Content{Header: "X-Mac"}); content != want || err != nil {
		t.Errorf("content %+v, %v, want %+v", content, err, want)
	}
	if _, err := (signature.Format{Scheme: "rot13"}).Content(message); !errors.Is(err, signature.ErrScheme) {
		t.Errorf("unknown scheme: %v", err)
	}
	if _, err := (signature.Format{}).Content(signature.Message{ID: "a.b"}); !errors.Is(err, signature.ErrMessage) {
		t.Errorf("id with a dot: %v", err)
	}
}
