package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

// headOf is a request head as the sender records it.
const headOf = "POST /hooks HTTP/1.1\r\nHost: acme.example\r\nWebhook-Id: recorded\r\nWebhook-Signature: ***\r\n\r\n"

func TestTheRequestOfAnAttemptIsShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		head     string
		recorded bool
		id       string // value of the header Webhook-Id; empty: the event's
	}{
		"recorded":     {headOf, true, "recorded"},
		"not recorded": {"", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			acme := w.tenant("acme")
			w.settle(acme.endpoint, postrider.Attempt{StatusCode: 500, RequestHead: []byte(test.head)})
			got := w.want(200, "GET /deliveries/"+acme.delivery+"/attempts/1/request", "").body
			if got["recorded"] != test.recorded || got["endpoint_changed"] != false || got["body"] != `{"order_id": 42}` {
				t.Errorf("request %v", got)
			}
			want := test.id
			if want == "" {
				want = acme.event
			}
			if text := fmt.Sprint(got["headers"]); !strings.Contains(text, "value:"+want) ||
				!strings.Contains(text, "masked:true name:Webhook-Signature") {
				t.Errorf("headers %v", got["headers"])
			}
			signed := got["signatures"].([]any)[0].(map[string]any)
			prefix := signed["prefix"].(string)
			sum := sha256.Sum256([]byte(prefix + `{"order_id": 42}`))
			if !strings.HasPrefix(prefix, acme.event+".") || signed["sha256"] != hex.EncodeToString(sum[:]) {
				t.Errorf("signed content %v", signed)
			}
		})
	}
}

func TestARequestSaysThatItsEndpointHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 500})
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"url": "https://new.example/hooks"}`)
	if got := w.want(200, "GET /deliveries/"+acme.delivery+"/attempts/1/request", ""); got.body["endpoint_changed"] != true {
		t.Errorf("request %s", got.text)
	}
}

func TestARequestThatIsNotThereIsNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	for _, attempt := range []string{"1", "0", "-1", "x", "99999999999999"} {
		w.want(404, "GET /deliveries/"+acme.delivery+"/attempts/"+attempt+"/request", "")
	}
	w.want(200, "POST /deliveries/"+acme.delivery+"/cancel", "")
	w.want(409, "GET /deliveries/"+acme.delivery+"/attempts/1/request", "")
	w.settle(evil.endpoint, postrider.Attempt{StatusCode: 500})
	if got := w.do(w.bound(acme), "GET /deliveries/"+evil.delivery+"/attempts/1/request", ""); got.status != 404 {
		t.Errorf("another account's request = %d %s", got.status, got.text)
	}
}
