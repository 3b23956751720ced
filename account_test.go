package postrider_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	with := func(scopes ...postrider.Scope) postrider.APIKey { return postrider.APIKey{Scopes: scopes} }
	ending := with(postrider.ScopeAdmin)
	ending.ExpiresAt = now
	lasting := with(postrider.ScopeAdmin)
	lasting.ExpiresAt = now.Add(1)
	revoked := with(postrider.ScopeAdmin)
	revoked.RevokedAt = now.Add(time.Hour) // whatever the clock of this node says
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
		{"an expired key allows nothing", ending, nil},
		{"a key allows until it expires", lasting, postrider.Scopes},
		{"a revoked key allows nothing", revoked, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []postrider.Scope
			for _, scope := range postrider.Scopes {
				if tt.key.Allows(scope, now) {
					got = append(got, scope)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("allows %v, want %v", got, tt.want)
			}
			for i := range min(len(got), len(tt.want)) {
				if got[i] != tt.want[i] {
					t.Errorf("allows %v, want %v", got, tt.want)
				}
			}
		})
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
		{"secret", postrider.Secret{Sealed: []byte("hush"), Public: "whpk_hush"}, "v=sec_00000000000000000000000000"},
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
