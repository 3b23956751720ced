package contract_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// unknown are ids that name nothing.
var unknown = strings.NewReplacer(
	"{account}", "nobody", "{endpoint}", "ep_01h455vb4pex5vsknk084sn02q", "{event}", "evt_01h455vb4pex5vsknk084sn02q",
	"{delivery}", "dlv_01h455vb4pex5vsknk084sn02q", "{key}", "key_01h455vb4pex5vsknk084sn02q", "{session}", "ses_01h455vb4pex5vsknk084sn02q",
	"{secret}", "sec_01h455vb4pex5vsknk084sn02q", "{replay}", "rpl_01h455vb4pex5vsknk084sn02q", "{expunge}", "xpg_01h455vb4pex5vsknk084sn02q",
	"{destination}", "dst_01h455vb4pex5vsknk084sn02q", "{request}", "ins_01h455vb4pex5vsknk084sn02q",
	"{attempt}", "1", "{name}", "no.such.type", "{part}", "events-2026-11-23-1", "{source}", "src_01h455vb4pex5vsknk084sn02q",
)

// bodies are the least that an operation takes whose body has to say something.
var bodies = map[string]string{
	"set-circuit":               `{"status": "open"}`,
	"create-endpoint":           `{"account": "nobody", "url": "https://example.com/", "event_types": ["a"]}`,
	"create-api-key":            `{"name": "n", "scopes": ["webhooks:read"], "account": "nobody"}`,
	"verify-endpoint":           `{"method": "challenge"}`,
	"publish-event":             `{"account": "acme", "type": "a", "data": 1}`,
	"publish-events":            `{"events": [{"account": "acme", "type": "a", "data": 1}]}`,
	"set-portal-logo":           `{"png": "` + onePixel + `"}`,
	"create-portal-session":     `{"account": "nobody"}`,
	"create-account":            `{"name": "another"}`,
	"create-event-type":         `{"name": "no.other.type"}`,
	"backfill-endpoint":         `{"start_from": "2026-01-01T00:00:00Z"}`,
	"count-backfill":            `{"start_from": "2026-01-01T00:00:00Z"}`,
	"put-endpoint":              `{"url": "https://example.com/", "event_types": ["a"]}`,
	"put-source":                `{"database_url": "postgres://reader@127.0.0.1:9/shop?sslmode=disable"}`,
	"retry-rejected-rows":       `{"code": "not_found"}`,
	"discard-rejected-rows":     `{"code": "not_found"}`,
	"create-expunge":            `{"event": "evt_01h455vb4pex5vsknk084sn02q"}`,
	"restore-archive":           `{}`,
	"create-notice-destination": `{"channel": "slack", "address": "https://hooks.example/nobody"}`, // an email needs a public URL first
	// without a filter it replays every dead letter
	"create-replay": `{"event_types": ["no.such.type"]}`,
}

// route returns a request of an operation. ids are pairs of a parameter of paths and its
// value; a parameter without a value names nothing.
func (op *operation) route(ids ...string) string {
	path := op.method + " " + unknown.Replace(strings.NewReplacer(ids...).Replace(strings.TrimPrefix(op.path, "/v1/webhooks")))
	switch op.id {
	case "search": // it must be told what to look for
		path += "?q=nobody"
	case "put-account", "put-event-type": // another uid or name would be created, and then be found
		path = strings.NewReplacer("nobody", "acc_01h455vb4pex5vsknk084sn02q", "no.such.type", "order.put").Replace(path)
	}
	return path
}

// sends returns its body.
func (op *operation) sends() any {
	if op.body == nil {
		return nil
	}
	if body, ok := bodies[op.id]; ok {
		return body
	}
	return `{}`
}

// driveProblems makes every operation refuse what any client could send.
func (c *caller) driveProblems() {
	c.Helper()
	keys := []string{}
	for _, scope := range []string{"events:write", "webhooks:read"} {
		keys = append(keys, c.want(201, "POST /api-keys", object{"name": scope, "scopes": []string{scope}}).id("key"))
	}
	var waiting sync.WaitGroup
	for _, op := range c.document.ops {
		c.send(request{route: op.route(), body: op.sends(), key: "-"})
		for _, key := range keys {
			c.send(request{route: op.route(), body: op.sends(), key: key})
		}
		c.send(request{route: op.route(), body: op.sends()})
		c.send(request{route: op.method + " " + unknown.Replace(strings.TrimPrefix(op.path, "/v1/webhooks")) + "?nonsense=1", body: op.sends()})
		if op.body == nil {
			continue
		}
		c.send(request{route: op.route(), body: op.sends(), header: map[string]string{"Content-Type": "text/plain"}})
		c.announce(op, "Content-Length: 67108864\r\n\r\n")
		c.announce(op, "Transfer-Encoding: chunked\r\n\r\n-1\r\n")
		waiting.Go(func() { c.announce(op, "Content-Length: 10\r\n\r\n") })
	}
	c.driveParameters()
	c.driveUnrouted()
	waiting.Wait()
}

// refused sends each operation that the document lets conflict with the code. Its objects,
// whose ids are those of route, are as the code says, so each answer must have the code.
func (c *caller) refused(code string, ids ...string) {
	c.Helper()
	for _, op := range c.document.ops {
		if r := op.responses[http.StatusConflict]; r == nil || !slices.Contains(r.codes, code) {
			continue
		}
		if got := c.send(request{route: op.route(ids...), body: op.sends()}); got.id("code") != code {
			c.Errorf("%s = %d %s, want %s", op.route(ids...), got.status, got.text, code)
		}
	}
}

// driveLateAgreement has a receiver agree after the URL of its endpoint has changed.
func (c *caller) driveLateAgreement() {
	c.Helper()
	id := c.endpoint("agrees.late", "/agree/late")
	var asking sync.WaitGroup
	asking.Go(func() { c.refused("url_changed", "{endpoint}", id) })
	c.reached("/agree/late")
	c.want(200, "PATCH /endpoints/"+id, object{"url": c.receiver.url + "/agree"})
	close(c.receiver.late)
	asking.Wait()
}

// driveUnrouted asks for what is in no operation of the document, where the
// answers are problems too.
func (c *caller) driveUnrouted() {
	c.Helper()
	problem := c.document.compile(c.T, "#/components/schemas/Problem")
	for route, want := range map[string]int{"GET /nothing": http.StatusNotFound, "PUT /events": http.StatusMethodNotAllowed} {
		method, path, _ := strings.Cut(route, " ")
		req, err := http.NewRequestWithContext(c.Context(), method, c.server.url+"/v1/webhooks"+path, http.NoBody)
		if err != nil {
			c.Fatal(err)
		}
		got, err := http.DefaultClient.Do(req)
		if err != nil {
			c.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(got.Body)
		got.Body.Close()
		if err == nil {
			err = problem.Validate(value)
		}
		if err != nil || got.StatusCode != want || got.Header.Get("Request-Id") == "" {
			c.Errorf("%s = %s, want %d and a problem with an id: %v", route, got.Status, want, err)
		}
		if allow := got.Header.Get("Allow"); want == http.StatusMethodNotAllowed && allow != "GET, HEAD, POST" {
			c.Errorf("%s allows %q", route, allow)
		}
		var states []string
		c.document.walk(object{"$ref": "#/components/schemas/Problem"}, "", value, func(state string) { states = append(states, state) })
		c.ledger.note(states)
	}
}

// announce sends a request whose body does not come, and judges the answer. rest is the end of
// the head, with the framing of the body, and the first bytes of the body.
func (c *caller) announce(op *operation, rest string) {
	path := "/v1/webhooks" + unknown.Replace(strings.TrimPrefix(op.path, "/v1/webhooks"))
	var dialer net.Dialer
	conn, err := dialer.DialContext(c.Context(), "tcp", strings.TrimPrefix(c.server.url, "http://"))
	if err != nil {
		c.Errorf("%s: %v", op.id, err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s",
		op.method, path, c.server.key, rest)
	req, err := http.NewRequestWithContext(context.Background(), op.method, c.server.url+path, http.NoBody)
	if err != nil {
		c.Errorf("%s: %v", op.id, err)
		return
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		c.Errorf("%s with a body that does not come: %v", op.id, err)
		return
	}
	defer got.Body.Close()
	c.judge(req, got, "")
}

// driveUnavailable calls every operation while the database is away.
func (c *caller) driveUnavailable() {
	c.Helper()
	var calling sync.WaitGroup
	for _, op := range c.document.ops {
		if op.id == "try-subscription" { // it reads nothing but the key, which the server may remember
			continue
		}
		calling.Go(func() {
			if got := c.send(request{route: op.route(), body: op.sends()}); got.status != http.StatusServiceUnavailable {
				c.Errorf("%s without its database = %d %s", op.id, got.status, got.text)
			}
		})
	}
	calling.Wait()
}

// authority returns the certificate of an authority.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
