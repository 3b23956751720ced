package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

func Example() {
	ctx := context.Background()
	server := serverThatAnswers(201, `{"id": "ep_01h455vb4pex5vsknk084sn02q", "secrets": [{"secret": "whsec_…"}]}`)
	defer server.Close()
	c := client.New(server.URL, "pr_…", client.Options{}) // as in http://127.0.0.1:8080
	defer c.Close()

	endpoint, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: "acme", URL: "https://acme.example/hooks", EventTypes: []string{"order.*"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(endpoint.ID, "signs with", *endpoint.Secrets[0].Secret)
	// Output: ep_01h455vb4pex5vsknk084sn02q signs with whsec_…
}

// With an idempotency key of its own, a program may publish an event again after a crash, and it is
// delivered once.
func ExampleClient_Publish() {
	server := serverThatAnswers(202, `{"id": "evt_01h455vb4pex5vsknk084sn02q", "deliveries": 1}`)
	defer server.Close()
	c := client.New(server.URL, "pr_…", client.Options{})
	defer c.Close()

	receipt, err := c.Publish(context.Background(), apitypes.EventCreate{
		Account: "acme", Type: "order.created", Data: json.RawMessage(`{"order_id":42}`), IdempotencyKey: "order-42",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.ID, "is on disk")
	// Output: evt_01h455vb4pex5vsknk084sn02q is on disk
}

// An error says which fields are wrong, and has a code for programs.
func ExampleError() {
	server := serverThatAnswers(422, `{"code": "invalid", "errors": [{"field": "url", "reason": "must be https"}]}`)
	defer server.Close()
	c := client.New(server.URL, "pr_…", client.Options{})
	defer c.Close()

	_, err := c.CreateEndpoint(context.Background(), apitypes.EndpointCreate{Account: "acme", URL: "ftp://acme.example"})
	if problem, ok := errors.AsType[*client.Error](err); ok && problem.Code == "invalid" {
		for _, field := range problem.Fields {
			fmt.Println(field.Field, field.Reason)
		}
	}
	// Output: url must be https
}

// What a receiver needs besides a signature is set in the policy of its endpoint.
func ExampleClient_ChangeEndpoint() {
	server := serverThatAnswers(200, `{"auth": {"type": "oauth2", "token_url": "https://id.acme.example/token", "client_id": "postrider"}}`)
	defer server.Close()
	c := client.New(server.URL, "pr_…", client.Options{})
	defer c.Close()

	var endpoint apitypes.Endpoint // the endpoint as it was created
	endpoint, err := c.ChangeEndpoint(context.Background(), endpoint.ID, apitypes.EndpointUpdate{
		Policy: apitypes.Policy{
			Headers: apitypes.Of([]apitypes.Header{{Name: "X-Tenant", Value: apitypes.Of("acme")}}),
			Auth: apitypes.Of(apitypes.Auth{
				Type: "oauth2", TokenURL: "https://id.acme.example/token", ClientID: "postrider", ClientSecret: "…",
			}),
			Signature: apitypes.Of(apitypes.Signature{Schemes: []apitypes.Scheme{
				{Scheme: "standard"},
				{Scheme: "github", Header: "X-Acme-Signature", Prefix: "sha256="},
			}}),
			Rate: apitypes.Null[apitypes.Rate](), // back to the default
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(endpoint.Auth.Value().TokenURL)
	// Output: https://id.acme.example/token
}

// All walks a list of any length.
func ExampleAll() {
	ctx := context.Background()
	server := serverThatAnswers(200, `{"data": [{"delivery": "dlv_01h455vb4pex5vsknk084sn02q", "reason": "exhausted"}], "next_cursor": null}`)
	defer server.Close()
	c := client.New(server.URL, "pr_…", client.Options{})
	defer c.Close()

	dead := client.All(func(p client.Paging) (apitypes.Page[apitypes.DeadLetter], error) {
		return c.DeadLetters(ctx, client.DeadLetterFilter{Account: "acme", Paging: p})
	})
	for letter, err := range dead {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(letter.Delivery, letter.Reason)
	}
	// Output: dlv_01h455vb4pex5vsknk084sn02q exhausted
}

// serverThatAnswers returns a server that takes the place of a Postrider server.
func serverThatAnswers(status int, body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
}
