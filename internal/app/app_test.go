package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// running is a server on SQLite that runs in this process.
type running struct {
	app     *app.App
	api     *client.Client
	keyFile string        // of an admin key
	log     *bytes.Buffer // to be read after stop
	stop    func() error  // drains, and returns what Run did
}

// start runs a server on free ports in dir.
func start(t *testing.T, dir string) *running {
	t.Helper()
	return startWith(t, dir, nil)
}

// startWith runs a server with an environment.
func startWith(t *testing.T, dir string, env map[string]string) *running {
	t.Helper()
	settings, sources := configtest.Parse(t, env, "--dev", "--data-dir", dir, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	if err := sources.Check(settings.Validate); err != nil {
		t.Fatal(err)
	}
	r := &running{log: &bytes.Buffer{}, keyFile: filepath.Join(dir, "admin.key")}
	server, err := app.New(t.Context(), settings, config.Logger(settings, r.log))
	if err != nil {
		t.Fatal(err)
	}
	r.app = server
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { ended <- server.Run(ctx) })
	r.stop = sync.OnceValue(func() error {
		cancel()
		serving.Wait()
		return <-ended
	})
	select {
	case <-server.Opened():
	case err := <-ended:
		t.Fatalf("Run = %v", err)
	}
	key, err := os.ReadFile(r.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	r.api = client.New("http://"+server.Addr().String(), strings.TrimSpace(string(key)), client.Options{})
	t.Cleanup(func() {
		r.api.Close()
		if err := r.stop(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", r.log.Bytes()[max(0, r.log.Len()-64<<10):])
		}
	})
	return r
}

// subscribe makes an account with an endpoint at the URL.
func (r *running) subscribe(t *testing.T, url string) apitypes.Endpoint {
	t.Helper()
	if _, err := r.api.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"}); err != nil {
		t.Fatal(err)
	}
	e, err := r.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{Account: "acme", URL: url, EventTypes: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (r *running) publish(t *testing.T) postrider.EventID {
	t.Helper()
	receipt, err := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not within %v", what, testkit.Patience)
}

// ready returns the status of /readyz and its body.
func (r *running) ready(t *testing.T) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.app.OpsAddr().String()+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAnEventIsDelivered(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Webhook-Id")
	}))
	t.Cleanup(receiver.Close)
	r := start(t, t.TempDir())
	r.subscribe(t, receiver.URL)

	event := r.publish(t)
	if got := <-arrived; got != event.String() {
		t.Errorf("arrived: %s, want %s", got, event)
	}
	eventually(t, "delivered", func() bool {
		page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
		return err == nil && len(page.Data) == 1 && page.Data[0].Status == postrider.Delivered
	})
	if status, text := r.ready(t); status != http.StatusOK {
		t.Errorf("readyz = %d %s, want 200", status, text)
	}
}

func TestDrainingFinishesWhatIsInFlightAndSaysSo(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(started)
		<-finish
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	r := start(t, dir)
	r.subscribe(t, receiver.URL)
	event := r.publish(t)
	<-started

	var stopping sync.WaitGroup
	var stopped error
	stopping.Go(func() { stopped = r.stop() })
	eventually(t, "readyz says that it drains", func() bool {
		status, text := r.ready(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "the server is draining")
	})
	close(finish)
	stopping.Wait()
	if stopped != nil {
		t.Errorf("Run = %v, want nil", stopped)
	}

	again := start(t, dir)
	if again.app.FirstKey().Text != "" {
		t.Error("the second start made another first key")
	}
	page, err := again.api.EventDeliveries(t.Context(), event, client.Paging{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Status != postrider.Delivered || page.Data[0].Attempts != 1 {
		t.Errorf("after the drain: %+v, %v; want delivered at the first attempt", page.Data, err)
	}
}

func TestTheStartTellsItsStoryWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	key := r.app.FirstKey().Text
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	story := r.log.String()
	if lines := strings.Count(story, "\n"); lines > 10 {
		t.Errorf("start and end take %d lines, want at most 10:\n%s", lines, story)
	}
	if key == "" || strings.Contains(story, key) {
		t.Errorf("the log holds the first key, or there is none:\n%s", story)
	}
}

func TestASecondServerOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dir)
	settings, _ := configtest.Parse(t, nil, "--data-dir", dir, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	if err := refusal(t.Context(), settings, slog.New(slog.DiscardHandler)); !drivers.InUse(err) {
		t.Errorf("Run = %v, want that the folder is in use", err)
	}
}

// refusal starts a server that must end at once, and returns its error.
func refusal(ctx context.Context, c config.Config, log *slog.Logger) error {
	server, err := app.New(ctx, c, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		select {
		case <-server.Opened():
			cancel(errors.New("it serves"))
		case <-ctx.Done():
		}
	})
	err = server.Run(ctx)
	cancel(nil)
	return err
}

// TestEveryHandshakeOfTheAPICanBeSet compares the values of the setting, which package config lists
// itself, with the methods of the API.
func TestEveryHandshakeOfTheAPICanBeSet(t *testing.T) {
	t.Parallel()
	for _, method := range apiendpoints.VerifyMethods {
		set, sources := configtest.Parse(t, nil, "--verify-endpoints", method)
		if sources.Check(set.Validate) != nil || set.VerifyMethod() != method {
			t.Errorf("--verify-endpoints %s is refused", method)
		}
	}
}
