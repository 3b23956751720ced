package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/signature"
)

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// output is what a program wrote up to now.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// program is the example while it runs.
type program struct {
	url         string
	stdout, log output
	stop        func()
}

func start(t *testing.T, folder string) *program {
	t.Helper()
	p := &program{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		args := []string{"-listen", "localhost:0", "-secrets", filepath.Join(folder, "secrets.txt"), "-db", filepath.Join(folder, "webhooks.db")}
		if err := run(ctx, args, &p.stdout, &p.log); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	p.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(p.stop)
	listening := regexp.MustCompile(`address=(\S+)`)
	testkit.Eventually(t, "it listens", func() bool { return listening.MatchString(p.log.String()) })
	p.url = "http://" + listening.FindStringSubmatch(p.log.String())[1] + "/webhooks"
	return p
}

func (p *program) deliver(t *testing.T, id, secret string) int {
	t.Helper()
	body := fmt.Sprintf(`{"type":"order.created","order":%q}`, id)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	m := signature.Message{ID: id, Timestamp: time.Now(), Body: []byte(body)}
	if err := signature.Sign(r.Header, m, []signature.Key{{Secret: key}}, signature.Format{}); err != nil {
		t.Fatal(err)
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// The program receives, verifies, and knows after a restart what it has printed.
func TestExample(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	secrets := "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n\n" + secretText + "\n"
	if err := os.WriteFile(filepath.Join(folder, "secrets.txt"), []byte(secrets), 0o600); err != nil {
		t.Fatal(err)
	}
	first := start(t, folder)
	for _, step := range []struct {
		id, secret string
		want       int
	}{
		{"evt_1", secretText, 204},
		{"evt_1", secretText, 204},
		{"evt_2", "whsec_plJ3nmyCDGBKInavdOK15jslAAAAAAAA", 401},
	} {
		if got := first.deliver(t, step.id, step.secret); got != step.want {
			t.Errorf("%s is answered with %d, want %d", step.id, got, step.want)
		}
	}
	first.stop()
	second := start(t, folder)
	for _, id := range []string{"evt_1", "evt_3"} {
		if got := second.deliver(t, id, secretText); got != 204 {
			t.Errorf("%s is answered with %d after the restart", id, got)
		}
	}
	const line = `%[1]s order.created {"type":"order.created","order":"%[1]s"}` + "\n"
	if got, want := first.stdout.String(), fmt.Sprintf(line, "evt_1"); got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
	if got, want := second.stdout.String(), fmt.Sprintf(line, "evt_3"); got != want {
		t.Errorf("after the restart it printed %q, want %q", got, want)
	}
}

func TestExampleRefusesWrongSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.txt")
	if err := os.WriteFile(file, []byte("\nwhsec_short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"line 2":       {"-secrets", file},
		"no such file": {"-secrets", file + ".not"},
		"not defined":  {"-speed", "11"},
	} {
		var out output
		err := run(t.Context(), args, &out, &out)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short") {
			t.Errorf("run %v: %v, want an error with %q", args, err, want)
		}
	}
}
