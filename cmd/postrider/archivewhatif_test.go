package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An event that only the archive has is compared with another subscription than the endpoint has.
func TestArchivedEventsAreComparedByCommands(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	event := forgotten(t, dir, folder)
	flags := served(t, dir, folder)
	call := func(want int, args ...string) (out, hints string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), slices.Concat(args, flags), terminal{strings.NewReader(""), &stdout, &stderr}); got != want {
			t.Fatalf("%v exits with %d, want %d: %s%s", args, got, want, &stdout, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	found, _ := call(0, "archive", "search", "--event", event.String())
	account := regexp.MustCompile(`acc_\w+`).FindString(found)
	made, _ := call(0, "endpoints", "create", "https://acme.example/", "--account", account, "--event-types", "user.*")
	endpoint := regexp.MustCompile(`ep_\w+`).FindString(made)
	compared, hints := call(0, "archive", "what-if", "start", endpoint, "--event-types", "order.*", "--from", "-365d", "--wait")
	for _, line := range []string{
		"done: 1 of 1 parts are read, 0 of their events are expunged", "of 1 archived events the subscription selects 1",
		"the present one selects 0: 1 would be new, 0 would be gone", "PRESENTLY", event.String(),
	} {
		if !strings.Contains(compared, line) {
			t.Errorf("the comparison does not say %q: %s", line, compared)
		}
	}
	if !strings.Contains(hints, "0 of 1 parts are read") {
		t.Errorf("the progress is %q", hints)
	}
	shown, _ := call(0, "archive", "what-if", "get", endpoint, "--json")
	if !strings.Contains(shown, `"against": "subscription"`) || !strings.Contains(shown, `"status": "done"`) {
		t.Errorf("the job is %s", shown)
	}
	if out, _ := call(0, "archive", "what-if", "cancel", endpoint); out != "cancelled\n" {
		t.Errorf("cancel prints %q", out)
	}
	call(1, "archive", "what-if", "get", endpoint)
}
