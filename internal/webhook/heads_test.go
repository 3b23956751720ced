package webhook_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
)

// TestHeadsAreKeptWhenTheyMatter: stores do not keep whole heads of an accepted response that fits
// into the attempt's own row.
func TestHeadsAreKeptWhenTheyMatter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		size   int
		kept   string
	}{
		{"accepted", 200, 256, "HTTP/1.1 200 OK\r\nServer: acme\r\nContent-Type: text/plain\r\n\r\n"},
		{"accepted, with much to say", 200, 257, ""},
		{"rejected", 500, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
				for name, value := range map[string]string{
					"X-Receiver": "yes", "Server": "acme", "Content-Type": "text/plain", "Via": strings.Repeat("x", 500),
				} {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				if _, err := w.Write(make([]byte, tt.size)); err != nil {
					t.Error(err)
				}
			})
			a := send(t, open(t, laptop()), routed(r.URL+"/hooks?token=canary", signedBy(postrider.Schemes...)), testkit.Patience)
			if tt.kept != "" {
				lines, want := strings.SplitAfter(string(a.ResponseHead), "\r\n"), strings.SplitAfter(tt.kept, "\r\n")
				slices.Sort(lines)
				slices.Sort(want)
				if a.RequestHead != nil || !slices.Equal(lines, want) {
					t.Errorf("kept %q and %q, want %q", a.RequestHead, a.ResponseHead, tt.kept)
				}
				return
			}
			if head := string(a.ResponseHead); !strings.HasPrefix(head, "HTTP/1.1 "+strconv.Itoa(tt.status)) ||
				!strings.Contains(head, "X-Receiver: yes\r\n") || !strings.HasSuffix(head, "\r\n\r\n") {
				t.Errorf("response head = %q", head)
			}
			head := string(a.RequestHead)
			for _, secret := range []string{"canary", "v1,", "sha256="} {
				if strings.Contains(head, secret) {
					t.Errorf("request head carries %q: %s", secret, head)
				}
			}
			if !strings.HasPrefix(head, "POST /hooks?... HTTP/1.1\r\nHost: ") || !strings.Contains(head, "Webhook-Id: evt_") ||
				!strings.Contains(head, "\r\nWebhook-Signature: ***\r\n") ||
				!strings.HasSuffix(head, "\r\n\r\n") {
				t.Errorf("request head = %q", head)
			}
		})
	}
}
