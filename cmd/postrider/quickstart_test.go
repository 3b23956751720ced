package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

// TestQuickStart runs the quick start of the README in a shell, in a copy of the sources, on each
// store. Only the ports differ.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	empty := func(context.Context, string) error { return nil } // the server makes its tables
	for name, database := range map[string]string{"sqlite": "", "postgres": testkit.Postgres(t, empty)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, ops, receiver := freePort(t), freePort(t), freePort(t)
			ports := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:"+api, "127.0.0.1:9090", "127.0.0.1:"+ops,
				"127.0.0.1:9000", "127.0.0.1:"+receiver, `"127.0.0.1", 9000`, `"127.0.0.1", `+receiver,
				"127.0.0.1:5432", "127.0.0.1:"+startShop(t))
			shell := exec.CommandContext(t.Context(), "bash", "-euc", ports.Replace(quickStart(t)))
			shell.Dir = sources(t)
			shell.Env = append(os.Environ(), "POSTRIDER_DATABASE_URL="+database,
				"POSTRIDER_LISTEN=127.0.0.1:"+api, "POSTRIDER_OPS_LISTEN=127.0.0.1:"+ops, "POSTRIDER_URL=http://127.0.0.1:"+api)
			out, err := shell.CombinedOutput()
			if err != nil {
				t.Fatalf("the quick start ended with %v:\n%s", err, out)
			}
			for _, want := range []string{
				`"id":"acc_`, `"secret":"whsec_`, `"id":"evt_[0-9a-z]{26}","deliveries":1`, `Webhook-Signature: v1,`,
				`"data":{"order_id": 42}}`, `"data":{"order_id": 43}}`, `order\.created +ep_\S+ +delivered +1 +200`, `postrider has stopped`,
			} {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("%s is not in the output of the quick start:\n%s", want, out)
				}
			}
			if bytes.Contains(out, []byte(`{"order_id": 44}`)) {
				t.Errorf("an event was sent whose transaction was rolled back:\n%s", out)
			}
		})
	}
}

// startShop starts a PostgreSQL server for a producer's data and returns its port.
func startShop(t *testing.T) (port string) {
	t.Helper()
	port = freePort(t)
	cluster, err := testkit.StartPostgres("", "listen_addresses=127.0.0.1", "port="+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return port
}

// quickStart returns the README's commands as one script. Where a delivery is expected it repeats
// the command that lists the deliveries, as a person does who was faster than the delivery.
func quickStart(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "\n## Quick start\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 5 {
		t.Fatalf("the quick start has %d blocks of commands, and this test knows five", len(blocks))
	}
	lines := strings.Split(strings.TrimSpace(blocks[2][1]), "\n")
	list := lines[len(lines)-1]
	look := func(delivered string) string {
		return "for i in {1..100}; do " + list + " > list; test $(grep -c ' delivered ' list) = " + delivered +
			" && break; sleep 0.1; done; cat list"
	}
	return strings.Join([]string{
		"trap 'kill $(jobs -pr)' ERR", // no server stays when a command fails
		blocks[0][1], blocks[1][1], blocks[2][1], look("1"), blocks[3][1], look("2"),
		blocks[4][1], "wait", // until all started processes have ended
	}, "\n")
}

// sources returns a folder with the files from which the program is built.
func sources(t *testing.T) string {
	t.Helper()
	root, dir := "../..", t.TempDir()
	files, err := filepath.Glob(root + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, root+"/go.mod", root+"/go.sum") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"apitypes", "client", "cmd", "internal", "signature"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(root, part))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// freePort returns a port that is free and that the system does not assign. The system assigns
// ports from 32768 on to listeners and connections that ask for any port.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
