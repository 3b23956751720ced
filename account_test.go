package postrider_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

// A whole noun may be logged. Its secrets must not appear in the log line.
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
				"v.endpoint=ep_00000000000000000000000000 v.attempt=3 v.trace=0000000000000000d0d12c1410f51724",
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
