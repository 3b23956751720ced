package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/postrider/postrider/signature"
)

const (
	privateText = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	publicText  = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
)

func base64Of(prefix string, size int) string {
	return prefix + base64.StdEncoding.EncodeToString(make([]byte, size))
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"symmetric", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true},
		{"symmetric, 64 bytes", base64Of("whsec_", 64), true},
		{"a private key", privateText, true},
		{"a public key", publicText, true},
		{"65 bytes", base64Of("whsec_", 65), false},
		{"23 bytes", base64Of("whsec_", 23), false},
		{"nothing", "", false},
		{"the prefix alone", "whsec_", false},
		{"without its prefix", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false},
		{"an unknown prefix", base64Of("whxx_", 32), false},
		{"a prefix in capitals", base64Of("WHSEC_", 32), false},
		{"no padding", strings.TrimRight(base64Of("whsec_", 64), "="), false},
		{"bits beyond the end", "whsec_" + strings.Repeat("A", 42) + "B=", false},
		{"the URL alphabet", "whsec_" + strings.Repeat("-_--", 10), false},
		{"a line break", "whsec_MfKQ9r8GKYqrTwjUPD8I\nLPZIo2LaLaSw", false},
		{"a line break at the end", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", false},
		{"twice the prefix", "whsec_whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false},
		{"a seed alone", base64Of("whsk_", 32), false},
		{"a private key with another's public half", base64Of("whsk_", 64), false},
		{"a public key of 31 bytes", base64Of("whpk_", 31), false},
		{"a public key of 33 bytes", base64Of("whpk_", 33), false},
		{"a private key as a public one", "whpk_" + strings.TrimPrefix(privateText, "whsk_"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := signature.ParseSecret(tt.text)
			if tt.ok && (err != nil || got.Text() != tt.text) {
				t.Errorf("ParseSecret = %q, %v", got.Text(), err)
			}
			if !tt.ok && (!errors.Is(err, signature.ErrSecret) || !got.IsZero()) {
				t.Errorf("ParseSecret = %q, %v; want ErrSecret", got.Text(), err)
			}
		})
	}
}

func TestTextSecret(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"24 characters", strings.Repeat("x", 24), true},
		{"64 characters", strings.Repeat("~", 64), true},
		{"an underscore", "shpss_0123456789abcdef0123456789abcdef", true},
		{"23 characters", strings.Repeat("x", 23), false},
		{"65 characters", strings.Repeat("x", 65), false},
		{"nothing", "", false},
		{"a space", strings.Repeat("x", 24) + " x", false},
		{"a line break", strings.Repeat("x", 24) + "\n", false},
		{"beyond ASCII", strings.Repeat("é", 24), false},
		{"a misspelt symmetric secret", "whsec_" + strings.Repeat("!", 30), false},
		{"a public key, which everybody knows", publicText, false},
		{"a misspelt private key", "whsk_" + strings.Repeat("A", 30), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := signature.TextSecret(tt.text)
			if tt.ok && (err != nil || got.Text() != tt.text) {
				t.Errorf("TextSecret = %q, %v", got.Text(), err)
			}
			if !tt.ok && (!errors.Is(err, signature.ErrTextSecret) || !got.IsZero()) {
				t.Errorf("TextSecret = %q, %v; want ErrTextSecret", got.Text(), err)
			}
		})
	}
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	drawn := bytes.Repeat([]byte("x"), 32)
	got, err := signature.NewSecret(strings.NewReader(strings.Repeat("x", 40)))
	if want := "whsec_" + base64.StdEncoding.EncodeToString(drawn); err != nil || got.Text() != want {
		t.Errorf("NewSecret = %q, %v; want %q", got.Text(), err, want)
	}
	key, err := signature.NewPrivateKey(bytes.NewReader(drawn))
	if want := "whsk_" + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(drawn)); err != nil || key.Text() != want {
		t.Errorf("NewPrivateKey = %q, %v; want %q", key.Text(), err, want)
	}
	for _, made := range []signature.Secret{got, key} {
		if parsed, err := signature.ParseSecret(made.Text()); err != nil || !parsed.Equal(made) {
			t.Errorf("ParseSecret(%q): %v", made.Text(), err)
		}
	}
	if _, err := signature.NewSecret(strings.NewReader("short")); err == nil {
		t.Error("NewSecret of a source that ends: no error")
	}
	if _, err := signature.NewPrivateKey(strings.NewReader("short")); err == nil {
		t.Error("NewPrivateKey of a source that ends: no error")
	}
}

func TestSecretPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		privateText: publicText, publicText: publicText, base64Of("whsec_", 32): "", strings.Repeat("x", 30): "",
	} {
		if got := secretOf(text).Public().Text(); got != want {
			t.Errorf("Public of %s = %q, want %q", text, got, want)
		}
	}
	var zero signature.Secret
	if !zero.IsZero() || zero.Text() != "" || !zero.Public().IsZero() || zero.Equal(secretOf(privateText)) {
		t.Error("the zero Secret is a secret")
	}
}

// TestSecretShowsNothing prints secrets in every way in which programs print them by mistake, also
// inside structs that fmt reads by reflection.
func TestSecretShowsNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", privateText, "brought-along-from-elsewhere"} {
		var out strings.Builder
		secret := secretOf(text)
		hidden := struct {
			secret signature.Secret
			keys   []signature.Key
			any    any
		}{secret, []signature.Key{{ID: "sec_1", Secret: secret}}, &secret}
		for _, v := range []any{secret, &secret, hidden, &hidden, hidden.keys, map[string]signature.Secret{"a": secret}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%t"} {
				fmt.Fprintf(&out, verb+"\n", v)
			}
			for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
				slog.New(handler).Info("secret", "value", v)
			}
			if err := json.NewEncoder(&out).Encode(v); err != nil {
				t.Error(err)
			}
		}
		out.WriteString(secret.String())
		_, encoding, _ := strings.Cut(text, "_")
		for _, form := range []string{text, encoding[:min(8, len(encoding))], fmt.Sprintf("%x", text), fmt.Sprintf("%d", []byte(text))} {
			if form != "" && strings.Contains(strings.ToLower(out.String()), strings.ToLower(form)) {
				t.Errorf("secret shown as %q", form)
			}
		}
	}
}
