package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

// TestQuickStart pastes the quick start of the README into a shell, on each
// store. Only the ports are others, and where a person takes a moment to paste
// the next block, the shell waits for what the block needs.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	empty := func(context.Context, string) error { return nil } // the server makes its tables
	for name, database := range map[string]string{"sqlite": "", "postgres": testkit.Postgres(t, empty)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shell := exec.CommandContext(t.Context(), "bash", "-eu", "-c", quickStart(t))
			shell.Dir = t.TempDir()
			shell.Env = append(os.Environ(), "POSTRIDER_DATABASE_URL="+database, "POSTRIDER_OPS_LISTEN=127.0.0.1:0")
			out, err := shell.CombinedOutput()
			if err != nil {
				t.Fatalf("the quick start ended with %v:\n%s", err, out)
			}
			for _, want := range []string{
				`"id":"acc_`, `"secret":"whsec_`, `"id":"evt_[0-9a-z]{26}","deliveries":1`,
				`Webhook-Signature: v1,`, `"data":{"order_id": 42}}`, `order\.created +ep_\S+ +delivered +1 +200`,
			} {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("%s is not in the output of the quick start:\n%s", want, out)
				}
			}
		})
	}
}

// quickStart returns the README's commands as one script.
func quickStart(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "\n## Quick start\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("the quick start has %d blocks of commands, and this test knows three", len(blocks))
	}
	api, receiver := freePort(t), freePort(t)
	ports := strings.NewReplacer("go run ./cmd/postrider", "postrider", "127.0.0.1:8080", "127.0.0.1:"+api,
		"127.0.0.1:9000", "127.0.0.1:"+receiver, `"127.0.0.1", 9000`, `"127.0.0.1", `+receiver)
	return ports.Replace(strings.Join([]string{
		"export PYTHONUNBUFFERED=1 POSTRIDER_URL=http://127.0.0.1:8080 POSTRIDER_LISTEN=127.0.0.1:8080",
		"trap 'kill $(jobs -p); wait' EXIT",
		blocks[0][1],
		"answers() { curl -sS --retry 100 --retry-delay 1 --retry-connrefused -o /dev/null $1; }",
		"answers http://127.0.0.1:8080/; answers http://127.0.0.1:9000/",
		blocks[1][1], blocks[2][1],
		"for i in {1..100}; do postrider deliveries list | grep delivered && exit; sleep 0.1; done; exit 1",
	}, "\n"))
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
