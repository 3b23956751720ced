package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
)

func TestWhatAConnectionHasIsSentAndReadInEveryForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change client.EndpointChange
		body   string
	}{
		{client.EndpointChange{Auth: &client.Auth{}}, `{"auth":null}`},
		{client.EndpointChange{Auth: &client.Auth{Type: postrider.AuthBearer, Token: "t"}}, `{"auth":{"type":"bearer","token":"t"}}`},
		{client.EndpointChange{TLS: &client.TLS{}}, `{"tls":null}`},
		{client.EndpointChange{Headers: []client.Header{}}, `{"headers":[]}`},
		{
			client.EndpointChange{Headers: []client.Header{{Name: "A"}, {Name: "B", Sensitive: true}, {Name: "C", Value: "c", Sensitive: true}}},
			`{"headers":[{"name":"A","value":"","sensitive":false},{"name":"B","sensitive":true},{"name":"C","value":"c","sensitive":true}]}`,
		},
		{
			client.EndpointChange{Signature: &client.Signature{Schemes: []client.Scheme{{Scheme: "standard"}, {Scheme: "github", Header: "X-A", Prefix: "p="}}}},
			`{"signature":{"schemes":["standard",{"scheme":"github","header":"X-A","prefix":"p="}]}}`,
		},
	} {
		text, err := json.Marshal(tt.change)
		if err != nil || string(text) != tt.body {
			t.Errorf("sent %s, %v; want %s", text, err, tt.body)
		}
	}
	c, _ := answering(t, 200, `{"headers":[{"name":"A","value":"a","sensitive":false},{"name":"B","value":null,"sensitive":true}],
		"auth":null,"tls":{"certificate":"c"},"signature":{"schemes":["standard",{"scheme":"plain","header":"X-A"}]}}`)
	got, err := c.Endpoint(t.Context(), ep)
	want := client.Endpoint{
		Headers:   []client.Header{{Name: "A", Value: "a"}, {Name: "B", Sensitive: true}},
		TLS:       &client.TLS{Certificate: "c"},
		Signature: &client.Signature{Schemes: []client.Scheme{{Scheme: "standard"}, {Scheme: "plain", Header: "X-A"}}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("read: %v (-want +got):\n%s", err, diff)
	}
}

func TestSecretsAreInNoText(t *testing.T) {
	t.Parallel()
	auth, tls := client.Auth{Type: "basic", Password: "hush"}, client.TLS{Key: "hush"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, auth) + fmt.Sprintf(verb, &tls) + fmt.Sprintf(verb, client.NewEndpoint{Auth: &auth, TLS: &tls}); strings.Contains(text, "hush") {
			t.Errorf("%s shows a secret: %s", verb, text)
		}
	}
}

func TestAProblemHasWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, 409, `{"code":"replay_pending","detail":"d","index":7,"replay":"dlv_01h455vb4pex5vsknk084sn02q","request_id":"req_1"}`)
	_, err := c.ReplayDeadLetter(t.Context(), dlv)
	want := &client.Error{Status: 409, Code: "replay_pending", Detail: "d", Index: new(7), Replay: "dlv_01h455vb4pex5vsknk084sn02q", RequestID: "req_1", RetryAfter: 3e9}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for field := range readDocument(t).Components.Schemas["Problem"]["properties"].(map[string]any) {
		switch field {
		case "type", "title", "status": // the status says them
		case "code", "detail", "errors", "index", "replay", "request_id":
		default:
			t.Errorf("the client does not read %s", field)
		}
	}
}
