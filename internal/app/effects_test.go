package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// changes are servers that share a store, and an account whose endpoints people change.
type changes struct {
	*testing.T
	nodes    []*running
	apis     []*client.Client
	accepted atomic.Int64 // responses that said: not yet in effect
}

// newChanges starts n servers on PostgreSQL, or one on SQLite.
func newChanges(t *testing.T, n int) *changes {
	t.Helper()
	return newChangesWith(t, n, map[string]string{})
}

// newChangesWith is newChanges with settings for each server.
func newChangesWith(t *testing.T, n int, env map[string]string) *changes {
	t.Helper()
	c := &changes{T: t}
	if n > 1 {
		env["POSTRIDER_DATABASE_URL"] = testkit.Postgres(t, func(context.Context, string) error { return nil })
	}
	var key []byte
	for range n {
		dir := t.TempDir()
		if key != nil {
			c.must(os.WriteFile(filepath.Join(dir, "admin.key"), key, 0o600))
		}
		node := startWith(t, dir, env)
		var err error
		key, err = os.ReadFile(node.keyFile)
		c.must(err)
		c.nodes = append(c.nodes, node)
		api := client.New("http://"+node.app.Addr().String(), strings.TrimSpace(string(key)),
			client.Options{OnNotEffective: func(apitypes.NotEffective) { c.accepted.Add(1) }})
		t.Cleanup(api.Close)
		c.apis = append(c.apis, api)
	}
	_, err := c.apis[0].CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"})
	c.must(err)
	return c
}

func (c *changes) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *changes) endpoint(url, eventType string) postrider.EndpointID {
	c.Helper()
	e, err := c.apis[0].CreateEndpoint(c.Context(), apitypes.EndpointCreate{Account: "acme", URL: url, EventTypes: []string{eventType}})
	c.must(err)
	return e.ID
}

func (c *changes) publish(api *client.Client, eventType string, n int) {
	c.Helper()
	for range n {
		_, err := api.Publish(c.Context(), apitypes.EventCreate{Account: "acme", Type: eventType, Data: json.RawMessage(`{}`)})
		c.must(err)
	}
}

// TestPromise7AfterTheResponseAChangeIsInEffect changes endpoints through one server, and publishes
// through the others as soon as the server has responded. Nothing is sent that the change forbids.
func TestPromise7AfterTheResponseAChangeIsInEffect(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"sqlite": 1, "postgres": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChanges(t, n)
			before, after := testkit.NewReceiver(t, testkit.Status(http.StatusOK)), testkit.NewReceiver(t, testkit.Status(http.StatusOK))
			ctx := t.Context()
			took := time.Duration(0)
			const rounds = 6
			for i := range rounds {
				from := c.apis[i%n]
				for verb, change := range map[string]func(postrider.EndpointID) error{
					"url": func(id postrider.EndpointID) error {
						begun := time.Now()
						_, err := from.ChangeEndpoint(ctx, id, apitypes.EndpointUpdate{URL: after.URL})
						took += time.Since(begun)
						return err
					},
					"replaced": func(id postrider.EndpointID) error {
						_, err := from.PutEndpoint(ctx, id.String(), apitypes.EndpointPut{URL: after.URL, EventTypes: []string{"replaced"}})
						return err
					},
					"paused":   func(id postrider.EndpointID) error { _, err := from.PauseEndpoint(ctx, id, ""); return err },
					"disabled": func(id postrider.EndpointID) error { _, err := from.DisableEndpoint(ctx, id, ""); return err },
					"deleted":  func(id postrider.EndpointID) error { return from.DeleteEndpoint(ctx, id) },
				} {
					id := c.endpoint(before.URL, verb)
					c.must(change(id))
					at := len(before.Requests())
					for _, api := range c.apis {
						c.publish(api, verb, 2)
					}
					if verb != "deleted" {
						c.must(from.DeleteEndpoint(ctx, id))
					}
					if late := len(before.Requests()) - at; late > 0 {
						t.Errorf("%s: %d requests after the response", verb, late)
					}
				}
			}
			if c.accepted.Load() > 0 {
				t.Errorf("%d changes were not in effect with the response", c.accepted.Load())
			}
			t.Logf("a change of a URL took %v", took/rounds)
		})
	}
}

// TestPromise7AUidThatMovedFindsItsNewAccount gives the uid of an account to another one through one
// server, after all servers have published for it. Then all of them publish for the new account.
func TestPromise7AUidThatMovedFindsItsNewAccount(t *testing.T) {
	t.Parallel()
	c := newChanges(t, 3)
	eventually(t, "all servers are members", func() bool {
		nodes, err := c.apis[0].Nodes(t.Context())
		c.must(err)
		return len(nodes) == 3
	})
	for name, free := range map[string]func(account string) error{
		"changed": func(account string) error {
			_, err := c.apis[0].ChangeAccount(t.Context(), account, apitypes.AccountUpdate{UID: apitypes.Of("former")})
			return err
		},
		"deleted": func(account string) error { return c.apis[0].DeleteAccount(t.Context(), account) },
		"expunged": func(account string) error {
			_, err := c.apis[0].CreateExpunge(t.Context(), apitypes.ExpungeCreate{Account: account})
			return err
		},
	} {
		for _, api := range c.apis {
			c.publish(api, "order.created", 1)
		}
		c.must(free("acme"))
		account, err := c.apis[0].CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"})
		c.must(err)
		for i, api := range c.apis {
			receipt, err := api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
			c.must(err)
			if e, err := api.Event(t.Context(), receipt.ID); err != nil || e.Account != account.ID {
				t.Errorf("%s: server %d published for %s, %v; want the new account", name, i, e.Account, err)
			}
		}
	}
	if c.accepted.Load() > 0 {
		t.Errorf("%d changes were not in effect with the response", c.accepted.Load())
	}
}

// TestPromise2TheDeliveriesOfADeletedAccountHaveOneResult deletes an account while its deliveries
// are sent. A delivery that its receiver got is delivered, every other one is cancelled, and all
// lists and counts agree.
func TestPromise2TheDeliveriesOfADeletedAccountHaveOneResult(t *testing.T) {
	t.Parallel()
	c := newChanges(t, 3)
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	const endpoints, events = 40, 20
	for range endpoints {
		c.endpoint(receiver.URL, "*")
	}
	account, err := c.apis[0].Account(t.Context(), "acme")
	c.must(err)
	for i := range events {
		c.publish(c.apis[i%3], "order.created", 1)
	}
	eventually(t, "some arrive", func() bool { return len(receiver.Requests()) >= endpoints })
	c.must(c.apis[1].DeleteAccount(t.Context(), account.ID.String()))
	statuses := map[postrider.DeliveryID]postrider.Status{}
	eventually(t, "all have ended", func() bool {
		clear(statuses)
		pending := 0
		for f := (client.DeliveryFilter{Account: account.ID.String(), Paging: client.Paging{Limit: 250}}); ; {
			page, err := c.apis[2].Deliveries(t.Context(), f)
			c.must(err)
			for _, d := range page.Data {
				if was, twice := statuses[d.ID]; twice {
					t.Errorf("delivery %s is listed twice: %s and %s", d.ID, was, d.Status)
				}
				statuses[d.ID] = d.Status
				if d.Status == postrider.Pending {
					pending++
				}
			}
			if page.NextCursor == nil {
				return pending == 0
			}
			f.Cursor = *page.NextCursor
		}
	})
	delivered := 0
	for _, status := range statuses {
		if status == postrider.Delivered {
			delivered++
		}
	}
	if got := len(receiver.Requests()); len(statuses) != endpoints*events || delivered != got {
		t.Errorf("%d deliveries, %d of them delivered; want %d and the %d that arrived", len(statuses), delivered, endpoints*events, got)
	}
}

// TestAChangeThatAServerDoesNotConfirmIsAccepted changes endpoints of two servers that do not hear
// each other at once. If the other server owns the endpoint, the change is stored, and the response
// says that the change is not in effect yet.
func TestAChangeThatAServerDoesNotConfirmIsAccepted(t *testing.T) {
	t.Parallel()
	c := newChangesWith(t, 2, map[string]string{"POSTRIDER_POLL_ONLY": "true"})
	eventually(t, "each has a share of the endpoints", func() bool {
		nodes, err := c.apis[0].Nodes(t.Context())
		c.must(err)
		return len(nodes) == 2 && nodes[0].Shards > 0 && nodes[1].Shards > 0
	})
	const endpoints = 12
	var pausing errgroup.Group
	for range endpoints {
		id := c.endpoint("https://acme.example", "order.created")
		pausing.Go(func() error {
			e, err := c.apis[0].PauseEndpoint(t.Context(), id, "maintenance")
			if err == nil && e.Status != postrider.EndpointPaused {
				err = fmt.Errorf("the endpoint is %s, want paused", e.Status)
			}
			return err
		})
	}
	c.must(pausing.Wait())
	if got := c.accepted.Load(); got == 0 || got == endpoints {
		t.Errorf("%d of %d changes were not in effect with the response, want those of the other server's endpoints", got, endpoints)
	}
}
