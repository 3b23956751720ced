package api_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// TestAnEndpointWithAnUnreadablePolicyIsShownAndMended damages the policy of an
// endpoint with secret headers.
func TestAnEndpointWithAnUnreadablePolicyIsShownAndMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	path := "/endpoints/" + acme.endpoint
	w.want(200, "PATCH "+path, `{"headers": [{"name": "X-Token", "value": "secret", "sensitive": true}]}`)
	id := w.endpoint(acme.endpoint).ID
	setter := w.store.(interface {
		SetPolicyDocument(ctx context.Context, id postrider.EndpointID, document string) error
	})
	if err := setter.SetPolicyDocument(t.Context(), id, `{"version":7}`); err != nil {
		t.Fatal(err)
	}

	shown := w.want(200, "GET "+path, "")
	text, _ := shown.body["policy_error"].(string)
	if !strings.Contains(text, "version 7 is newer") || !reflect.DeepEqual(shown.body["warnings"], []any{"policy_unreadable"}) {
		t.Errorf("the endpoint is shown as %s", shown.text)
	}
	if _, has := shown.body["concurrency"]; has {
		t.Errorf("a policy is shown: %s", shown.text)
	}
	if listed := w.want(200, "GET /endpoints?account=acme", "").data(); len(listed) != 1 {
		t.Errorf("listed: %v", listed)
	}
	for route, body := range map[string]string{
		"POST " + path + "/circuit": `{"status": "open"}`, "POST " + path + "/test": "", "POST " + path + "/secrets/rotate": "",
		"POST " + path + "/verify": `{"method": "challenge"}`,
	} {
		if got := w.want(409, route, body); !strings.Contains(got.text, "version 7 is newer") {
			t.Errorf("%s = %s, want why the policy cannot be read", route, got.text)
		}
	}
	has(t, "paused", w.want(200, "POST "+path+"/pause", "").body, map[string]any{"status": "paused"})
	w.want(200, "POST "+path+"/resume", "")
	changed := w.want(200, "PATCH "+path, `{"description": "new", "url": "https://acme.example/other"}`)
	has(t, "changed", changed.body, map[string]any{"description": "new", "policy_error": text})
	if faults := w.want(422, "PATCH "+path, `{"url": "https://elsewhere.example/"}`); !strings.Contains(faults.text, "headers") {
		t.Errorf("a new host, which must not get the old secrets: %s", faults.text)
	}
	if faults := w.want(422, "PATCH "+path, `{"concurrency": 7}`); !strings.Contains(faults.text, "timeout_ms") ||
		strings.Contains(faults.text, `"concurrency"`) {
		t.Errorf("a part of the policy: %s", faults.text)
	}

	var fields []string
	for field := range reflect.TypeFor[apitypes.Policy]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, `"`+name+`": null`)
	}
	defaults := "{" + strings.Join(fields, ", ") + "}"
	mended := w.want(200, "PATCH "+path, strings.Replace(defaults, `"concurrency": null`, `"concurrency": 7`, 1))
	has(t, "mended", mended.body, map[string]any{"policy_error": nil, "concurrency": 7.0, "timeout_ms": 10000.0})
	if e := w.endpoint(acme.endpoint); !reflect.DeepEqual(e.Policy.Headers, []postrider.Header(nil)) || e.PolicyError != "" {
		t.Errorf("stored: %+v", e)
	}
}
