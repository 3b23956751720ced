package postrider_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	with := func(scopes ...postrider.Scope) postrider.APIKey { return postrider.APIKey{Scopes: scopes} }
	for _, tt := range []struct {
		name string
		key  postrider.APIKey
		want []postrider.Scope
	}{
		{"admin includes every scope", with(postrider.ScopeAdmin), postrider.Scopes},
		{
			"writing includes reading", with(postrider.ScopeWebhooksWrite),
			[]postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeWebhooksWrite},
		},
		{"reading is reading", with(postrider.ScopeWebhooksRead), []postrider.Scope{postrider.ScopeWebhooksRead}},
		{"publishing is publishing", with(postrider.ScopeEventsWrite), []postrider.Scope{postrider.ScopeEventsWrite}},
		{"a key without scopes allows nothing", with(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []postrider.Scope
			for _, scope := range postrider.Scopes {
				if tt.key.Allows(scope) {
					got = append(got, scope)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("allows %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAKeyIsActiveUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		key  postrider.APIKey
		want bool
	}{
		{"a key without an end", postrider.APIKey{}, true},
		{"a key that expires now", postrider.APIKey{ExpiresAt: now}, false},
		{"a key that expires later", postrider.APIKey{ExpiresAt: now.Add(1)}, true},
		{"a revoked key, whatever the clock says", postrider.APIKey{RevokedAt: now.Add(time.Hour)}, false},
	} {
		if got := tt.key.ActiveAt(now); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// Nouns are logged whole; their secrets must not be.
func TestLogLinesKeepSecrets(t *testing.T) {
	t.Parallel()
	id := deliveryID(1)
	for _, tt := range []struct {
		name  string
		value slog.LogValuer
		want  string
	}{
		{
			"key",
			postrider.APIKey{Name: "ci", Hash: [32]byte{'s'}, Scopes: []postrider.Scope{"hush"}},
			"v.id=key_00000000000000000000000000 v.name=ci",
		},
		{
			"endpoint",
			postrider.Endpoint{URL: "https://hush.example/s", Status: postrider.EndpointPaused},
			"v.id=ep_00000000000000000000000000 v.status=paused",
		},
		{"secret", postrider.Secret{Encrypted: []byte("hush"), Public: "whpk_hush"}, "v=sec_00000000000000000000000000"},
		{
			"claimed",
			postrider.Claimed{ID: id, Event: &postrider.Event{Data: []byte("hush")}, Attempt: 3},
			"v.id=" + id.String() + " v.event=evt_00000000000000000000000000 " +
				"v.endpoint=ep_00000000000000000000000000 v.attempt=3",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			slog.New(slog.NewTextHandler(&out, nil)).Info("seen", "v", tt.value)
			if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "msg=seen "); got != tt.want {
				t.Errorf("logged %q, want %q", got, tt.want)
			}
		})
	}
}
