package app_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/signature"
)

const v1 = "/v1/webhooks"

// aviary is a server with a canary in every place where a secret can be.
type aviary struct {
	*testing.T
	*running
	found

	canaries   map[string]*canary
	api        *client.Client // whose answers are kept
	key        string         // the admin's
	reached    *testkit.Receiver
	refusing   *testkit.Receiver
	tokens     *httptest.Server
	endpoints  []postrider.EndpointID
	deliveries []postrider.DeliveryID
}

// plant makes a canary of a text of its own, or of the needles.
func (a *aviary) plant(name string, needles ...string) string {
	if len(needles) == 0 {
		needles = []string{draw()}
	}
	a.canaries[name] = &canary{name: name, needles: needles}
	return needles[0]
}

// mayBe says where a canary may be shown.
func (a *aviary) mayBe(name string, places ...string) { a.canaries[name].shown = places }

func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := newAviary(t)
			dir, dsn := t.TempDir(), ""
			env := map[string]string{"POSTRIDER_LOG_LEVEL": "debug", "POSTRIDER_LOG_FORMAT": "json"}
			if kind == "postgres" {
				dsn = a.database(env)
			}
			a.refuseSettings(env)
			a.start(dir, env)
			a.createAll()
			a.deliverAll()
			a.refuseAll()
			a.changeAll()
			a.deliverAll()
			a.lookAll()
			if err := a.stop(); err != nil {
				t.Fatal(err)
			}
			slog.New(slog.NewJSONHandler(a.log, nil)).Info("planted", "text", a.canaries["planted"].needles[0])
			a.add("log", a.log.Bytes())
			a.stored(t, dir, dsn)
			a.judge(kind)
		})
	}
}

func newAviary(t *testing.T) *aviary {
	t.Helper()
	a := &aviary{T: t, canaries: map[string]*canary{}}
	a.places = map[string]*bytes.Buffer{}
	a.tokens = httptest.NewServer(http.HandlerFunc(a.token))
	t.Cleanup(a.tokens.Close)
	a.reached = testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	a.refusing = testkit.NewReceiver(t, testkit.Status(http.StatusInternalServerError))
	a.plant("an access token")
	return a
}

// token responds as an authorization server: with a token, or with a copy of the request, as some
// servers do when they refuse.
func (a *aviary) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	asked, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.URL.Path, "/refuse") {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error": "invalid_client", "error_description": %q}`, r.Header.Get("Authorization")+string(asked))
		return
	}
	fmt.Fprintf(w, `{"access_token": %q, "token_type": "bearer", "expires_in": 3600}`, a.canaries["an access token"].needles[0])
}

// database returns a database whose password and encryption key are canaries.
func (a *aviary) database(env map[string]string) string {
	a.Helper()
	u, err := url.Parse(testkit.Postgres(a, func(context.Context, string) error { return nil }))
	if err != nil {
		a.Fatal(err)
	}
	dsn := u.String()
	u.User = url.UserPassword(u.User.Username(), a.plant("the database's password"))
	keyring, err := secrets.NewKeyring(rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	env["POSTRIDER_DATABASE_URL"], env["POSTRIDER_SECRETS_KEY"] = u.String(), strings.TrimSpace(string(keyring.Format()))
	a.encryptionKey(string(keyring.Format()))
	return dsn
}

func (a *aviary) encryptionKey(keyring string) {
	a.Helper()
	_, text, _ := strings.Cut(strings.TrimSpace(keyring), ":")
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		a.Fatal(err)
	}
	a.plant("the encryption key", string(key), text)
}

// refuseSettings starts servers whose settings have canaries in the wrong places. The servers must
// refuse to start.
func (a *aviary) refuseSettings(env map[string]string) {
	a.Helper()
	wrong := a.plant("a setting in the wrong place")
	for _, settings := range []map[string]string{
		{"POSTRIDER_SECRETS_KEY": wrong},
		{"POSTRIDER_SECRETS_KEY": "0102030405060708:" + wrong},
		{"POSTRIDER_DATABASE_URL": "postgres://u:" + wrong + "@127.0.0.1:1/db?connect_timeout=1"},
		{"POSTRIDER_DATABASE_URL": "host=127.0.0.1 password=" + wrong},
		{"POSTRIDER_EGRESS_PROXY": "http://u:" + wrong + "@bad host:1"},
	} {
		merged := maps.Clone(env)
		maps.Copy(merged, settings)
		settings, sources := configtest.Parse(a.T, merged, "--dev", "--data-dir", a.TempDir(), "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
		err := sources.Check(settings.Validate)
		printed, printErr := config.Print(settings.Settings())
		ctx, cancel := context.WithCancel(a.Context())
		log := &waitingLog{waits: cancel}
		if err == nil {
			err = refusal(ctx, settings, slog.New(slog.NewJSONHandler(log, nil)))
		}
		if cancel(); err == nil && !log.said || printErr != nil {
			a.Fatalf("a server with wrong settings starts: %v, %v", err, printErr)
		}
		a.add("refused settings", fmt.Append(log.Bytes(), err, printed, settings.LogValue()))
	}
}

// waitingLog is the log of a server that ends when it waits for its database.
type waitingLog struct {
	bytes.Buffer
	waits func() // ends the server
	said  bool   // that it waits
}

func (l *waitingLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("the store cannot be opened yet")) {
		l.said = true
		l.waits()
	}
	return l.Buffer.Write(line)
}

func (a *aviary) start(dir string, env map[string]string) {
	a.Helper()
	a.running = startWith(a.T, dir, env)
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		a.Fatal(err)
	}
	a.key = a.plant("the first admin key", strings.TrimSpace(string(key)))
	a.api = client.New("http://"+a.app.Addr().String(), a.key, client.Options{Transport: &a.found})
	if text, err := os.ReadFile(filepath.Join(dir, "secrets.key")); err == nil {
		a.encryptionKey(string(text))
	}
}

// signing returns three secrets to bring along.
func (a *aviary) signing() []string {
	a.Helper()
	symmetric, err := signature.NewSecret(rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	private, err := signature.NewPrivateKey(rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	seed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(private.Text(), "whsk_"))
	if err != nil {
		a.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(symmetric.Text(), "whsec_"))
	if err != nil {
		a.Fatal(err)
	}
	a.plant("a symmetric secret", symmetric.Text(), string(raw))
	a.plant("a text secret")
	a.plant("a private key", private.Text(), string(seed[:32]))
	for _, name := range []string{"a symmetric secret", "a text secret"} {
		a.mayBe(name, "POST "+v1+"/endpoints", "POST "+v1+"/endpoints/ep/secrets/rotate", "GET "+v1+"/endpoints/ep/secrets")
	}
	return []string{symmetric.Text(), a.canaries["a text secret"].needles[0], private.Text()}
}

// createAll makes endpoints that have, together, a secret of every kind. Each
// kind of authentication goes to a receiver that accepts and one that refuses.
func (a *aviary) createAll() {
	a.Helper()
	if _, err := a.running.api.CreateAccount(a.Context(), apitypes.AccountCreate{UID: "acme"}); err != nil {
		a.Fatal(err)
	}
	made, err := a.api.CreateKey(a.Context(), apitypes.KeyCreate{Name: "ci", Scopes: []postrider.Scope{postrider.ScopeEventsWrite}})
	if err != nil {
		a.Fatal(err)
	}
	a.plant("an API key", made.Key)
	a.mayBe("an API key", "POST "+v1+"/api-keys")

	query := "?key=" + a.plant("a URL's query")
	a.mayBe("a URL's query", "stored", "POST "+v1+"/endpoints", "GET "+v1+"/endpoints", "GET "+v1+"/endpoints/ep",
		"PATCH "+v1+"/endpoints/ep", "POST "+v1+"/endpoints/ep/pause", "POST "+v1+"/endpoints/ep/resume")
	header := apitypes.Header{Name: "X-Hush", Value: apitypes.Of(a.plant("a sensitive header")), Sensitive: true}
	client2 := a.plant("a client's secret")
	auths := []apitypes.Auth{
		{},
		{Type: postrider.AuthBasic, Username: "u", Password: a.plant("a password")},
		{Type: postrider.AuthBearer, Token: a.plant("a bearer token")},
		{Type: postrider.AuthAPIKey, Header: "X-Api-Key", Key: a.plant("a key for a header")},
		{Type: postrider.AuthOAuth2, TokenURL: a.tokens.URL + "/give", ClientID: "c", ClientSecret: client2},
		{Type: postrider.AuthOAuth2, TokenURL: a.tokens.URL + "/refuse", ClientID: "c", ClientSecret: client2},
	}
	signing := a.signing()
	for _, auth := range auths {
		for _, to := range []string{a.reached.URL, a.refusing.URL, "http://127.0.0.1:1", "https://nowhere.invalid"} {
			a.create(apitypes.EndpointCreate{
				URL: to + "/in" + query, NewSecrets: apitypes.NewSecrets{Secrets: signing},
				Policy: apitypes.Policy{
					Headers:   apitypes.Of([]apitypes.Header{header}),
					Auth:      apitypes.NullUnless(auth.Type != "", auth),
					Signature: apitypes.Of(apitypes.Signature{Schemes: []apitypes.Scheme{{Scheme: "standard"}, {Scheme: "slack"}, {Scheme: "plain"}}}),
				},
			})
		}
	}
	a.createTLS(query)
}

// createTLS makes an endpoint whose receiver wants a certificate, and returns
// when there is one.
func (a *aviary) createTLS(query string) {
	a.Helper()
	ca := testkit.NewCA(a)
	ends := time.Now().Add(time.Hour)
	receiver := testkit.NewTLSReceiver(a, &tls.Config{
		Certificates: []tls.Certificate{ca.Certificate(a, ends, "127.0.0.1")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool,
	}, testkit.Status(http.StatusOK))
	own := ca.Certificate(a, ends, "client")
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		a.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	a.plant("a TLS key", string(der[36:68]), strings.Split(text, "\n")[1]) // its scalar, and its first line
	id := a.create(apitypes.EndpointCreate{URL: receiver.URL + query, Policy: apitypes.Policy{TLS: apitypes.Of(apitypes.TLS{
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})),
		Key:         text, Authorities: string(ca.PEM()),
	})}})
	if _, err := a.api.TestEndpoint(a.Context(), id, apitypes.EndpointTest{}); err != nil {
		a.Fatal(err)
	}
	eventually(a.T, "the receiver that wants a certificate has a request", func() bool { return len(receiver.Requests()) > 0 })
}

func (a *aviary) create(e apitypes.EndpointCreate) postrider.EndpointID {
	a.Helper()
	e.Account, e.EventTypes, e.Retry = "acme", []string{"order.*"}, apitypes.Of(apitypes.Retry{DelaysMS: []int64{0}, Jitter: "none"})
	made, err := a.api.CreateEndpoint(a.Context(), e)
	if err != nil {
		a.Fatal(err)
	}
	a.endpoints = append(a.endpoints, made.ID)
	return made.ID
}

// deliverAll publishes to every endpoint, and waits until each has had its
// attempt.
func (a *aviary) deliverAll() {
	a.Helper()
	planted, ok := a.canaries["planted"]
	if !ok {
		a.plant("planted")
		planted = a.canaries["planted"]
	}
	receipt, err := a.api.Publish(a.Context(), apitypes.EventCreate{
		Account: "acme", Type: "order.created", Data: json.RawMessage(`{"p":"` + planted.needles[0] + `"}`),
	})
	if err != nil {
		a.Fatal(err)
	}
	var page apitypes.Page[apitypes.Delivery]
	eventually(a.T, "all deliveries have ended", func() bool {
		page, err = a.api.EventDeliveries(a.Context(), receipt.ID, client.Paging{Limit: 250})
		pending := func(d apitypes.Delivery) bool { return d.Status == postrider.Pending }
		return err == nil && len(page.Data) == len(a.endpoints) && !slices.ContainsFunc(page.Data, pending)
	})
	for _, d := range page.Data {
		a.deliveries = append(a.deliveries, d.ID)
	}
	a.get("/v1/webhooks/events/" + receipt.ID.String())
	a.get("/v1/webhooks/events/" + receipt.ID.String() + "/attempts?limit=250")
}

// send makes a request that no regular client would make.
func (a *aviary) send(route, body string, header http.Header) int {
	a.Helper()
	method, target, _ := strings.Cut(route, " ")
	request, err := http.NewRequestWithContext(a.Context(), method, "http://"+a.app.Addr().String()+target, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+a.key)
	request.Header.Set("Content-Type", "application/json")
	maps.Copy(request.Header, header)
	answer, err := a.RoundTrip(request)
	if err != nil {
		a.Fatal(err)
	}
	return answer.StatusCode
}

func (a *aviary) get(target string) {
	a.Helper()
	if status := a.send("GET "+target, "", nil); status != http.StatusOK {
		a.Errorf("GET %s = %d", target, status)
	}
}

// refuseAll puts a canary into every request field that must be refused.
func (a *aviary) refuseAll() {
	a.Helper()
	wrong := a.plant("what was refused")
	endpoint, one := "/v1/webhooks/endpoints", "/v1/webhooks/endpoints/"+a.endpoints[0].String()
	whole := func(fields string) string {
		return `{"account": "acme", "url": "` + a.reached.URL + `", "event_types": ["*"], ` + fields + `}`
	}
	for _, tt := range [][2]string{
		{"POST " + endpoint, whole(`"secret": "whsec_` + wrong + `"`)},
		{"POST " + endpoint, whole(`"secret": "whsk_` + wrong + `"`)},
		{"POST " + endpoint, whole(`"secrets": ["` + wrong + wrong + `"]`)},
		{"POST " + endpoint, whole(`"key_type": "` + wrong + `"`)},
		{"POST " + endpoint, whole(`"headers": [{"name": "X-A", "value": "` + wrong + `\u0000", "sensitive": true}]`)},
		{"POST " + endpoint, whole(`"headers": [{"name": "` + wrong + `:", "value": "a"}]`)},
		{"POST " + endpoint, whole(`"auth": {"type": "bearer", "password": "` + wrong + `"}`)},
		{"POST " + endpoint, whole(`"auth": {"type": "` + wrong + `"}`)},
		{"POST " + endpoint, whole(`"auth": {"type": "oauth2", "token_url": "ftp://x/` + wrong + `", "client_id": "c", "client_secret": "` +
			wrong + `"}`)},
		{"POST " + endpoint, whole(`"tls": {"certificate": "` + wrong + `", "key": "` + wrong + `"}`)},
		{"POST " + endpoint, whole(`"unknown": "` + wrong + `"`)},
		{"POST " + endpoint, `{"secret": "` + wrong},
		{"PATCH " + one, `{"url": "http://169.254.169.254/?key=` + wrong + `"}`},
		{"PATCH " + one, `{"url": "https://u:` + wrong + `@a.example/"}`},
		{"PATCH " + one, `{"url": "https://a b/` + wrong + `"}`},
		{"POST " + one + "/secrets/rotate", `{"secret": "` + wrong + ` "}`},
		{"POST " + one + "/secrets/rotate", `{"secret": {"a": "` + wrong + `"}}`},
		{"DELETE " + one + "/secrets/" + wrong, ""},
		{"GET " + endpoint + "?cursor=" + wrong, ""},
		{"GET " + endpoint + "?key=" + wrong, ""},
		{"GET /.well-known/webhook-keys?endpoint=" + wrong, ""},
		{"GET /v1/webhooks/event-types?limit=" + wrong, ""},
	} {
		if status := a.send(tt[0], tt[1], nil); status < 400 || status > 499 {
			a.Errorf("%s %s = %d, want that it is refused", tt[0], tt[1], status)
		}
	}
	for _, authorization := range []string{"Bearer pr_" + wrong, "Basic " + wrong, wrong} {
		if status := a.send("GET "+endpoint, "", http.Header{"Authorization": {authorization}}); status != http.StatusUnauthorized {
			a.Errorf("a foreign key = %d, want 401", status)
		}
	}
}

// changeAll changes the endpoints, their secrets and the encryption key.
func (a *aviary) changeAll() {
	a.Helper()
	young := a.plant("a text secret that came later")
	a.mayBe("a text secret that came later", "POST "+v1+"/endpoints/ep/secrets/rotate", "GET "+v1+"/endpoints/ep/secrets")
	later := a.plant("a sensitive header that came later")
	for _, id := range a.endpoints {
		one := "/v1/webhooks/endpoints/" + id.String()
		for _, tt := range [][2]string{
			{"PATCH " + one, `{"description": "changed", "headers": [{"name": "X-Hush", "value": "` + later + `", "sensitive": true}]}`},
			{"POST " + one + "/secrets/rotate", `{"secret": "` + young + `", "overlap_ms": 60000}`},
			{"GET " + one + "/secrets", ""},
			{"POST " + one + "/pause", ""},
			{"POST " + one + "/resume", ""},
		} {
			if status := a.send(tt[0], tt[1], nil); status != http.StatusOK {
				a.Errorf("%s = %d", tt[0], status)
			}
		}
	}
	if _, err := a.api.Reencrypt(a.Context()); err != nil {
		a.Error(err)
	}
}

// lookAll reads everything that can be read.
func (a *aviary) lookAll() {
	a.Helper()
	lists := []string{"endpoints", "deliveries", "dead-letters", "events", "accounts", "api-keys", "event-types", "openapi.json"}
	for _, list := range lists {
		a.get("/v1/webhooks/" + list)
	}
	a.get("/.well-known/webhook-keys")
	for _, id := range a.endpoints {
		for _, part := range []string{"", "/circuit", "/secrets", "/secret-states", "/ordering-keys", "/deliveries"} {
			a.get("/v1/webhooks/endpoints/" + id.String() + part)
		}
	}
	for _, id := range a.deliveries {
		a.get("/v1/webhooks/deliveries/" + id.String())
		a.get("/v1/webhooks/deliveries/" + id.String() + "/attempts")
	}
	for _, path := range []string{"/livez", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		request, err := http.NewRequestWithContext(a.Context(), http.MethodGet, "http://"+a.app.OpsAddr().String()+path, nil)
		if err != nil {
			a.Fatal(err)
		}
		if answer, err := a.RoundTrip(request); err != nil || answer.StatusCode != http.StatusOK {
			a.Errorf("ops %s = %v, %v", path, answer, err)
		}
	}
}

// judge checks that the requests had the secrets, that the search finds each canary where it may
// be, and that it finds none elsewhere.
func (a *aviary) judge(kind string) {
	a.Helper()
	var sent bytes.Buffer
	for _, r := range append(a.reached.Requests(), a.refusing.Requests()...) {
		sent.WriteString(r.Target)
		if err := r.Header.Write(&sent); err != nil {
			a.Fatal(err)
		}
	}
	for _, name := range []string{
		"a sensitive header", "a password", "a bearer token", "a key for a header", "an access token", "a URL's query",
		"a sensitive header that came later",
	} {
		if !slices.ContainsFunc(forms(a.canaries[name].needles[0]), func(form string) bool { return strings.Contains(sent.String(), form) }) &&
			!strings.Contains(sent.String(), base64.StdEncoding.EncodeToString([]byte("u:"+a.canaries[name].needles[0]))) {
			a.Errorf("%s was not sent to a receiver: the search proves nothing", name)
		}
	}
	planted := a.canaries["planted"]
	if places := a.where(planted.needles[0]); !slices.Contains(places, "log") || !slices.Contains(places, "stored") ||
		!slices.Contains(places, "GET "+v1+"/events/evt") {
		a.Errorf("what was planted is found in %v, want it in the log, the store and the API", places)
	}
	delete(a.canaries, "planted")
	for _, c := range a.canaries {
		a.want(a.T, *c)
	}
	total := 0
	for _, text := range a.places {
		total += text.Len()
	}
	a.Logf("%s: %d canaries, %d places, %d bytes searched, log of %d", kind, len(a.canaries), len(a.places), total, a.log.Len())
}
