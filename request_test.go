package postrider_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

func TestACurlCommandHasPlaceholders(t *testing.T) {
	t.Parallel()
	request := postrider.Request{
		Method: "POST", URL: "https://acme.example/hooks?...",
		Header: []postrider.HeaderField{
			{"Host", "acme.example"},
			{"Content-Type", "application/json"},
			{"Content-Encoding", "gzip"},
			{"Content-Length", "9"},
			{"Webhook-Signature", postrider.Masked},
		},
		Body: []byte(`{"a":"b"}`),
	}
	want := `curl -X POST 'https://acme.example/hooks?<query>' \
  -H 'Content-Type: application/json' \
  -H 'Webhook-Signature: <Webhook-Signature>' \
  --data-binary '{"a":"b"}'`
	if diff := cmp.Diff(want, request.Curl()); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

// TestAShellReadsACurlCommandAsItIsMeant lets a shell print the arguments of curl commands whose
// texts try to end an argument.
func TestAShellReadsACurlCommandAsItIsMeant(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`it's`, `'; echo owned; '`, "$(id) `id` \\ \"", "two\nlines", "{\"a\":\"ü\"}"} {
		request := postrider.Request{
			Method: "POST", URL: "https://acme.example/" + text,
			Header: []postrider.HeaderField{{"X-Text", text}}, Body: []byte(text),
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "curl() { printf '%s\\0' \"$@\"; }\n"+request.Curl()).Output()
		if err != nil {
			t.Fatalf("run %q: %v", request.Curl(), err)
		}
		want := []string{"-X", "POST", "https://acme.example/" + text, "-H", "X-Text: " + text, "--data-binary", text, ""}
		if diff := cmp.Diff(want, strings.Split(string(out), "\x00")); diff != "" {
			t.Errorf("arguments for %q (-want +got):\n%s", text, diff)
		}
	}
}

func TestACurlCommandReadsALongBodyFromAFile(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"long": []byte(strings.Repeat("x", 20<<10)), "gone": nil, "a name of a file": []byte("@/etc/passwd"), "no text": {0xff}, "zero": {0},
	} {
		request := postrider.Request{Method: "POST", URL: "https://acme.example/", Body: body}
		if got := request.Curl(); !strings.HasSuffix(got, "--data-binary @body.json") {
			t.Errorf("body that is %s: %s", name, got)
		}
	}
}
