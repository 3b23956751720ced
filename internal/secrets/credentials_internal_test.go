package secrets

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncryptedCredentialsHaveTheirNames(t *testing.T) {
	t.Parallel()
	full := credentials{Headers: map[string]string{"X-Key": "hush"}, Auth: "hush", TLSKey: "hush"}
	const document = `{"headers":{"X-Key":"hush"},"auth":"hush","tls_key":"hush"}`
	text, err := json.Marshal(full)
	if err != nil || string(text) != document {
		t.Errorf("encoded %s, %v; want %s", text, err, document)
	}
	got, err := decodeCredentials([]byte(document))
	if diff := cmp.Diff(full, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct{ was, is, want string }{
		{`"auth"`, `"Auth"`, `"Auth" is unknown`},
		{`"tls_key"`, `"tls_secret"`, `"tls_secret" is unknown`},
		{`"auth":"hush"`, `"auth":{"hush":1}`, `"auth" has another type`},
		{`"auth":"hush"`, `"auth":"hush`, ErrDamaged.Error()},
	} {
		_, err := decodeCredentials([]byte(strings.Replace(document, tt.was, tt.is, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error = %v, want one that says %q and quotes no value", tt.is, err, tt.want)
		}
	}
}
