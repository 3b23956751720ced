package app_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/offline"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/testkit"
)

// keyringOf reads the encryption keys in a file, which only its owner may read.
func keyringOf(t *testing.T, file string) secrets.Keyring {
	t.Helper()
	stat, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if stat.Mode().Perm() != 0o600 {
		t.Errorf("%s has the mode %v, want 0600", file, stat.Mode())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keyring, err := secrets.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keyring
}

// storeAt returns the settings of a store, from flags and an environment.
func storeAt(t *testing.T, env map[string]string, args ...string) config.Config {
	t.Helper()
	settings, sources := configtest.Parse(t, env, append([]string{"--dev", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"}, args...)...)
	if err := sources.Check(settings.Validate); err != nil {
		t.Fatal(err)
	}
	return settings
}

// wantNoStart starts a server that must refuse to, in these words.
func wantNoStart(t *testing.T, c config.Config, words ...string) {
	t.Helper()
	err := refusal(t.Context(), c, slog.New(slog.DiscardHandler))
	for _, want := range words {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q in it", err, want)
		}
	}
}

func TestTheEncryptionKeyIsMadeOnceAndMissed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secrets.key")
	r := start(t, dir)
	made := r.subscribe(t, "http://127.0.0.1:1")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	keyring := keyringOf(t, file)
	if len(keyring.IDs()) != 1 {
		t.Errorf("the first keyring has the keys %v, want one", keyring.IDs())
	}

	again := start(t, dir)
	shown, err := again.api.Secrets(t.Context(), made.ID)
	if err != nil || len(shown) != 1 || !cmp.Equal(shown[0], made.Secrets[0]) {
		t.Errorf("after a restart: %v, %v; want the secret that was made", shown, err)
	}
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	settings := storeAt(t, nil, "--data-dir", dir)
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	wantNoStart(t, settings, file+" may be read by others; chmod 600 it")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	wantNoStart(t, settings, "encrypted with key "+keyring.Newest().String(), "no encryption keys in "+file, "--secrets-key-file")
	if _, err := os.Stat(file); err == nil {
		t.Error("a start without the key made another")
	}
	if err := secrets.CreateFile(file); err != nil {
		t.Fatal(err)
	}
	wantNoStart(t, settings, "the encryption keys of "+file+" do not decrypt the stored values", keyring.Newest().String(),
		"--secrets-key-file")
	if err := secrets.CreateFile(file); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("NewKeyFile over a key = %v", err)
	}

	given, err := os.ReadFile(file + ".away")
	if err != nil {
		t.Fatal(err)
	}
	other := startWith(t, dir, map[string]string{"POSTRIDER_SECRETS_KEY": strings.TrimSpace(string(given))})
	if shown, err := other.api.Secrets(t.Context(), made.ID); err != nil || len(shown) != 1 {
		t.Errorf("with the key as a text: %v, %v", shown, err)
	}
}

// TestAStoreWhoseKeyIsLostStartsAsDocumented runs the statements of secrets.md on a store whose key
// is lost. If any statement were left out, the server would miss the key.
func TestAStoreWhoseKeyIsLostStartsAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	statements := regexp.MustCompile(`(?m)^    ((?:delete|update) .*;)$`).FindAllStringSubmatch(string(page), -1)
	dir := t.TempDir()
	r := start(t, dir)
	made := r.subscribe(t, "http://127.0.0.1:1")
	auth := apitypes.Of(apitypes.Auth{Type: postrider.AuthBearer, Token: "t"})
	if _, err := r.api.ChangeEndpoint(t.Context(), made.ID, apitypes.EndpointUpdate{Policy: apitypes.Policy{Auth: auth}}); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(statement string) {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("insert into archive_keys (account, encrypted) select account, encrypted from endpoints, endpoint_secrets where endpoint = endpoints.id")
	if err := os.Remove(filepath.Join(dir, "secrets.key")); err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		wantNoStart(t, storeAt(t, nil, "--data-dir", dir), "the encryption keys of this store are missing")
		run(statement[1])
	}
	again := start(t, dir)
	if endpoint, err := again.api.Endpoint(t.Context(), made.ID); err != nil || !slices.Contains(endpoint.Warnings, "no_secret") {
		t.Errorf("Endpoint = %v, %v; want the warning no_secret", endpoint.Warnings, err)
	}
}

// TestAFirstStartThatWasCutShortIsRepeated checks that the next start succeeds after a first start
// was killed before it renamed the key file.
func TestAFirstStartThatWasCutShortIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secrets.key")
	if err := os.WriteFile(file+".new", []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(t, dir).stop(); err != nil {
		t.Fatal(err)
	}
	keyringOf(t, file)
	if _, err := os.Stat(file + ".new"); err == nil {
		t.Error("what was cut short is still there")
	}
}

// load is what tenants do to a server while its encryption keys are rotated: each
// makes endpoints, rotates secrets and publishes, over and over.
type load struct {
	receiver *httptest.Server
	ended    sync.WaitGroup
	stop     context.CancelFunc

	under sync.RWMutex // read-locked by each round

	mu      sync.Mutex
	known   map[postrider.EndpointID][]apitypes.Secret // the newest first
	events  []postrider.EventID
	failure error
}

func newLoad(t *testing.T, servers ...*client.Client) *load {
	t.Helper()
	l := &load{known: map[postrider.EndpointID][]apitypes.Secret{}}
	l.receiver = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(l.receiver.Close)
	if _, err := servers[0].CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	t.Cleanup(func() { stop(); l.ended.Wait() })
	for i, api := range servers {
		for range 2 {
			l.ended.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					l.under.RLock()
					err := l.round(context.WithoutCancel(ctx), api, fmt.Sprintf("t%d.x", i))
					l.under.RUnlock()
					if err != nil {
						l.fail(fmt.Errorf("server %d, round %d: %w", i, n, err))
						return
					}
				}
			})
		}
	}
	return l
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = errors.Join(l.failure, err)
}

// round makes an endpoint with credentials, changes it, gives it a second
// secret, and publishes.
func (l *load) round(ctx context.Context, api *client.Client, eventType string) error {
	e, err := api.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: "acme", URL: l.receiver.URL, EventTypes: []string{eventType}, NewSecrets: apitypes.NewSecrets{KeyType: "ed25519"},
		Policy: apitypes.Policy{Headers: apitypes.Of([]apitypes.Header{{Name: "X-Key", Value: apitypes.Of("k"), Sensitive: true}})},
	})
	if err != nil {
		return err
	}
	// It writes the credentials back as it read them.
	slow := apitypes.EndpointUpdate{Policy: apitypes.Policy{TimeoutMS: apitypes.Of[int64](9000)}}
	if _, err := api.ChangeEndpoint(ctx, e.ID, slow); err != nil {
		return err
	}
	young, err := api.RotateSecret(ctx, e.ID, apitypes.SecretRotation{})
	if err != nil {
		return err
	}
	receipt, err := api.Publish(ctx, apitypes.EventCreate{Account: "acme", Type: eventType, Data: []byte(`{}`)})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[e.ID] = []apitypes.Secret{young, e.Secrets[0]}
	l.events = append(l.events, receipt.ID)
	return nil
}

// endRounds waits until the rounds have ended that encrypt with an old key.
func (l *load) endRounds() {
	l.under.Lock()
	defer l.under.Unlock()
}

// rounds waits until n more rounds are over.
func (l *load) rounds(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failure != nil {
			t.Fatal(l.failure)
		}
		return len(l.events)
	}
	until := count() + n
	eventually(t, "tenants go on", func() bool { return count() >= until })
}

// end stops the load and holds that every secret is shown and every event was
// delivered at the first attempt, by each of the servers.
func (l *load) end(t *testing.T, servers ...*client.Client) {
	t.Helper()
	l.stop()
	l.ended.Wait()
	l.rounds(t, 0)
	for _, api := range servers {
		l.wantShown(t, api)
	}
	for _, event := range l.events {
		wantDelivered(t, servers[0], event)
	}
}

// wantDelivered waits until every delivery of an event is delivered. An attempt that failed is
// an error at once.
func wantDelivered(t *testing.T, api *client.Client, event postrider.EventID) {
	t.Helper()
	var found []apitypes.Delivery
	defer func() {
		if t.Failed() {
			text, _ := json.Marshal(found)
			t.Logf("deliveries of %s at the last look: %s", event, text)
		}
	}()
	eventually(t, "delivered", func() bool {
		page, err := api.EventDeliveries(t.Context(), event, client.Paging{Limit: 250})
		found = page.Data
		return err == nil && !slices.ContainsFunc(found, func(d apitypes.Delivery) bool {
			if d.Attempts > 1 || d.LastError != nil {
				t.Fatalf("delivery %s was not delivered at the first attempt", d.ID)
			}
			return d.Status != postrider.Delivered
		})
	})
}

func (l *load) wantShown(t *testing.T, api *client.Client) {
	t.Helper()
	for id, want := range l.known {
		got, err := api.Secrets(t.Context(), id)
		if err != nil || len(got) != 2 || !cmp.Equal(got[0].Secret, want[0].Secret) || !cmp.Equal(got[1].PublicKey, want[1].PublicKey) {
			t.Fatalf("secrets of %s = %v, %v; want %v", id, got, err, want)
		}
	}
}

func TestRotatingUnderLoadOnSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	settings := storeAt(t, nil, "--data-dir", dir).StoreConfig
	file := filepath.Join(dir, "secrets.key")
	if _, err := offline.RotateKey(t.Context(), settings, secrets.Rotation{}); !drivers.InUse(err) {
		t.Errorf("RotateKey beside a server = %v, want that the store is in use", err)
	}
	l := newLoad(t, r.api)
	through := func(ctx context.Context) (secrets.Reencrypted, error) {
		l.endRounds() // which is what the grace is for
		done, err := r.api.Reencrypt(ctx)
		return secrets.Reencrypted(done), err
	}
	first := keyringOf(t, file).Newest()
	for n := range 3 {
		l.rounds(t, 5)
		done, err := offline.RotateKey(t.Context(), settings, secrets.Rotation{
			Reencrypt: through, DropOld: n == 2, Grace: time.Nanosecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("rotation %d: %+v", n, done)
		if keyring := keyringOf(t, file); done.Key != keyring.Newest().String() || done.Reencrypted.Reencrypted == 0 || done.Unreadable > 0 {
			t.Errorf("RotateKey = %+v, with %s in the file", done, keyring)
		}
	}
	l.rounds(t, 5)
	l.end(t, r.api)
	keyring := keyringOf(t, file)
	if len(keyring.IDs()) != 1 || keyring.Has(first) {
		t.Errorf("after the old keys were dropped the keyring is %s", keyring)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, dir) // which has the last key alone
	l.wantShown(t, again.api)
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	done, err := offline.RotateKey(t.Context(), settings, secrets.Rotation{}) // straight on the store
	if err != nil || done.Reencrypted.Reencrypted != done.Checked || done.Checked != 3*len(l.known) {
		t.Errorf("RotateKey without a server = %+v, %v; want all %d reencrypted", done, err, 3*len(l.known))
	}
}

// node runs a server on a PostgreSQL database, in a folder of its own. If the test fails, its
// warnings are printed.
func node(t *testing.T, dsn, key string, args ...string) *client.Client {
	t.Helper()
	env := map[string]string{"POSTRIDER_DATABASE_URL": dsn}
	settings := storeAt(t, env, append([]string{"--data-dir", t.TempDir()}, args...)...)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	server, err := app.New(t.Context(), settings, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
	<-server.Opened()
	api := client.New("http://"+server.Addr().String(), key, client.Options{})
	t.Cleanup(func() { api.Close(); cancel(); serving.Wait() })
	return api
}

func TestRotatingUnderLoadOnPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	settings := storeAt(t, map[string]string{"POSTRIDER_DATABASE_URL": dsn}, "--data-dir", t.TempDir()).StoreConfig
	_, key, err := offline.CreateKey(t.Context(), settings, offline.NewKey{Name: "test", Scopes: []postrider.Scope{postrider.ScopeAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	one, two := node(t, dsn, key), node(t, dsn, key)
	l := newLoad(t, one, two)
	rotate := func(c config.StoreConfig, r secrets.Rotation) secrets.Rotated {
		l.rounds(t, 5)
		done, err := offline.RotateKey(t.Context(), c, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("rotated: %+v", done)
		return done
	}
	for range 2 {
		if done := rotate(settings, secrets.Rotation{}); done.Source != "the database" || done.Reencrypted.Reencrypted == 0 {
			t.Errorf("RotateKey = %+v", done)
		}
	}
	l.under.Lock() // nothing holds a value that it encrypted with an old key
	done, err := offline.RotateKey(t.Context(), settings, secrets.Rotation{DropOld: true, Grace: time.Nanosecond})
	l.under.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Dropped) != 3 {
		t.Errorf("dropped %v, want three keys", done.Dropped)
	}
	l.rounds(t, 5)
	l.end(t, one, two, node(t, dsn, key))

	movesToAFile(t, l, settings, key)
}

// movesToAFile holds that the keys of a database can be given from a file
// instead, and that a node which is not given it is refused from then on.
func movesToAFile(t *testing.T, l *load, settings config.StoreConfig, key string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keyring")
	if err := offline.ExportKeys(t.Context(), settings, file); err != nil {
		t.Fatal(err)
	}
	exported := keyringOf(t, file)
	moved := settings
	moved.SecretsKeyFile = file
	done, err := offline.RotateKey(t.Context(), moved, secrets.Rotation{DropOld: true, Grace: time.Nanosecond})
	if err != nil || done.Source != file || done.Checked != 3*len(l.known) {
		t.Fatalf("RotateKey with the file = %+v, %v", done, err)
	}
	if keyring := keyringOf(t, file); keyring.Has(exported.Newest()) {
		t.Errorf("the file has %s, want a key that was never in the database", keyring)
	}
	l.wantShown(t, node(t, settings.DatabaseURL, key, "--secrets-key-file", file))
	wantNoStart(t, storeAt(t, map[string]string{"POSTRIDER_DATABASE_URL": settings.DatabaseURL}, "--data-dir", t.TempDir()),
		"no longer kept in the database", "--secrets-key-file")
}

func TestKeysGivenAsATextAreRotatedInTwoSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	made := r.subscribe(t, "http://127.0.0.1:1")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "secrets.key"))
	if err != nil {
		t.Fatal(err)
	}
	rotate := func(text string, r secrets.Rotation) secrets.Rotated {
		t.Helper()
		settings := storeAt(t, map[string]string{"POSTRIDER_SECRETS_KEY": text}, "--data-dir", dir)
		done, err := offline.RotateKey(t.Context(), settings.StoreConfig, r)
		if err != nil || done.Source != "POSTRIDER_SECRETS_KEY" {
			t.Fatalf("RotateKey = %+v, %v", done.Source, err)
		}
		return done
	}
	advised := rotate(string(text), secrets.Rotation{})
	if len(advised.Set) != 2 || advised.Reencrypted.Reencrypted != 0 {
		t.Fatalf("the first step advises %d values and reencrypted %d", len(advised.Set), advised.Reencrypted.Reencrypted)
	}
	if got := rotate(advised.Set[1], secrets.Rotation{}); len(got.Set) != 0 || got.Reencrypted.Reencrypted != 1 {
		t.Errorf("the second step advises %d values and reencrypted %d, want 0 and 1", len(got.Set), got.Reencrypted.Reencrypted)
	}
	last := rotate(advised.Set[1], secrets.Rotation{DropOld: true})
	if len(last.Set) != 1 || !strings.HasPrefix(advised.Set[1], last.Set[0]) {
		t.Error("the last step does not advise the new key alone")
	}
	again := startWith(t, dir, map[string]string{"POSTRIDER_SECRETS_KEY": last.Set[0]})
	if got, err := again.api.Secrets(t.Context(), made.ID); err != nil || len(got) != 1 || !cmp.Equal(got[0], made.Secrets[0]) {
		t.Errorf("with the new key alone: %v, %v", got, err)
	}
}

// TestDamagedValuesAreCountedAndKeepTheOldKeys damages one of two secrets.
func TestDamagedValuesAreCountedAndKeepTheOldKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	made := r.subscribe(t, "http://127.0.0.1:1")
	if _, err := r.api.RotateSecret(t.Context(), made.ID, apitypes.SecretRotation{}); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	opened, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := opened.EncryptedValues(t.Context(), store.EncryptedID{}, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("EncryptedValues = %v, %v; want two", list, err)
	}
	bent := bytes.Clone(list[0].Bytes)
	bent[len(bent)-1] ^= 1
	n, err := opened.Reencrypt(t.Context(), []store.Reencryption{{ID: list[0].ID, Old: list[0].Bytes, New: bent}})
	if err := errors.Join(err, opened.Close()); err != nil || n != 1 {
		t.Fatalf("bent %d: %v", n, err)
	}
	settings := storeAt(t, nil, "--data-dir", dir).StoreConfig
	var log bytes.Buffer
	done, err := offline.RotateKey(t.Context(), settings, secrets.Rotation{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil || done.Unreadable != 1 || done.Reencrypted.Reencrypted != 1 || !strings.Contains(log.String(), list[0].ID.Secret.String()) {
		t.Errorf("RotateKey = %+v, %v; want one unreadable, which the log names: %s", done, err, log.String())
	}
	_, err = offline.RotateKey(t.Context(), settings, secrets.Rotation{DropOld: true, Grace: time.Nanosecond})
	if keyring := keyringOf(t, filepath.Join(dir, "secrets.key")); err == nil || !strings.Contains(err.Error(), "the old keys stay") ||
		len(keyring.IDs()) != 3 {
		t.Errorf("RotateKey with DropOld = %v, with the keyring %s; want that the old keys stay", err, keyring)
	}
}
