package api_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// TestATestEventProbesAnOpenCircuit checks that a test event ends the cooldown of a circuit that
// failures opened. So the test does not wait for minutes after the receiver was repaired. A circuit
// that a person opened stays open.
func TestATestEventProbesAnOpenCircuit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, reason := range []string{postrider.ReasonProbeFailed, postrider.ReasonManual} {
		of := w.tenant(reason)
		id, err := postrider.ParseID[postrider.EndpointID](of.endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{
			Endpoint: id, Status: postrider.CircuitOpen, Reason: reason, OpenedAt: time.Now(), ProbeAt: time.Now().Add(time.Hour),
			Cooldown: time.Hour,
		}}); err != nil {
			t.Fatal(err)
		}
		w.want(202, "POST /endpoints/"+of.endpoint+"/test", "")
		at, err := time.Parse(time.RFC3339, w.want(200, "GET /endpoints/"+of.endpoint+"/circuit", "").id("probe_at"))
		if err != nil {
			t.Fatal(err)
		}
		if early := at.Before(time.Now().Add(time.Minute)); early != (reason != postrider.ReasonManual) {
			t.Errorf("after a test of an endpoint whose circuit is open by %s, the next probe is in %s", reason, time.Until(at))
		}
	}
}

// TestALatinResponseIsText checks that a response that declares windows-1252 is shown as text,
// beside its bytes.
func TestALatinResponseIsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.settle(acme.endpoint, postrider.Attempt{
		StatusCode: 400, Error: "http_status: 400", ResponseBody: []byte("Ung\xfcltig \x80"),
		ResponseHead: []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=ISO-8859-1\r\n\r\n"),
	})
	attempt := w.want(200, "GET /deliveries/"+acme.delivery+"/attempts", "").data()[0]
	if attempt["response_body"] != "Ungültig €" || attempt["response_body_base64"] != "VW5n/Gx0aWcggA==" {
		t.Errorf("the response is %q, in base64 %q", attempt["response_body"], attempt["response_body_base64"])
	}
	failure, _ := w.want(200, "GET /endpoints/"+acme.endpoint+"/circuit", "").body["last_failure"].(map[string]any)
	if failure["body"] != "Ungültig €" || failure["status_code"] != 400.0 || failure["delivery"] != acme.delivery {
		t.Errorf("the last failure is %v", failure)
	}
}

// TestTheAuditLogNamesNoHostThatStays checks that the audit log names the hosts of a changed URL
// only if they differ.
func TestTheAuditLogNamesNoHostThatStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	for _, url := range []string{"https://new.example/one", "https://new.example/two"} {
		w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"url": "`+url+`"}`)
	}
	var hosts int
	entries := w.want(200, "GET /audit?action=update-endpoint", "").data()
	for _, entry := range entries {
		if details, _ := entry["details"].(map[string]any); details["host"] != nil {
			hosts++
		}
	}
	if len(entries) != 2 || hosts != 1 {
		t.Errorf("%d of %d changes name hosts, want 1 of 2", hosts, len(entries))
	}
}
