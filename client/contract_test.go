package client_test

import (
	"context"
	"encoding"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// The client is held to docs/api/openapi.json, which a test of internal/api
// keeps equal to the server: every operation has a method, which sends what the
// document says, all of it, and whose answer has the document's fields.

type (
	ctx    = context.Context
	schema = map[string]any
)

var (
	ep  postrider.EndpointID
	evt postrider.EventID
	dlv postrider.DeliveryID
	rpl postrider.ReplayID
	xpg postrider.ExpungeID
	dst postrider.DestinationID
	sec postrider.SecretID
	pg  = client.Paging{Limit: 1, Cursor: "c"}
)

// answered returns a method's result without its error, for a table.
func answered[T any](v T, err error) (any, error) { return v, err }

// calls has one call of every operation, with every parameter and field set.
var calls = map[string]func(ctx, *client.Client) (any, error){
	"list-archive-parts": func(x ctx, c *client.Client) (any, error) {
		return answered(c.ArchiveParts(x, full[client.ArchivePartFilter]()))
	},
	"verify-archive-part": func(x ctx, c *client.Client) (any, error) {
		return answered(c.VerifyArchivePart(x, "events-2026-11-23-1"))
	},
	"search-archive": func(x ctx, c *client.Client) (any, error) {
		return answered(c.SearchArchive(x, full[client.ArchiveFilter]()))
	},
	"restore-archive": func(x ctx, c *client.Client) (any, error) {
		return answered(c.RestoreArchive(x, full[apitypes.ArchiveRestore]()))
	},
	"list-restored-records": func(x ctx, c *client.Client) (any, error) {
		return answered(c.RestoredRecords(x, full[client.RestoredFilter]()))
	},
	"list-accounts": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Accounts(x, full[client.AccountFilter]()))
	},
	"create-account": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateAccount(x, full[apitypes.AccountCreate]()))
	},
	"get-account": func(x ctx, c *client.Client) (any, error) { return answered(c.Account(x, "a")) },
	"update-account": func(x ctx, c *client.Client) (any, error) {
		return answered(c.IfRevision(1).ChangeAccount(x, "a", full[apitypes.AccountUpdate]()))
	},

	"get-account-quotas": func(x ctx, c *client.Client) (any, error) { return answered(c.AccountQuotas(x, "a")) },
	"update-account-quotas": func(x ctx, c *client.Client) (any, error) {
		return answered(c.ChangeAccountQuotas(x, "a", full[apitypes.QuotasUpdate]()))
	},

	"delete-account": func(x ctx, c *client.Client) (any, error) { return nil, c.DeleteAccount(x, "a") },

	"list-api-keys": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Keys(x, client.KeyFilter{Account: "acme", Paging: pg}))
	},
	"create-api-key": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateKey(x, full[apitypes.KeyCreate]()))
	},
	"get-api-key":    func(x ctx, c *client.Client) (any, error) { return answered(c.Key(x, postrider.KeyID{})) },
	"revoke-api-key": func(x ctx, c *client.Client) (any, error) { return nil, c.RevokeKey(x, postrider.KeyID{}) },

	"create-portal-session": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreatePortalSession(x, full[apitypes.PortalSessionCreate]()))
	},
	"list-sessions": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Sessions(x, full[client.SessionFilter]()))
	},
	"revoke-session":     func(x ctx, c *client.Client) (any, error) { return nil, c.RevokeSession(x, postrider.SessionID{}) },
	"list-audit-entries": func(x ctx, c *client.Client) (any, error) { return answered(c.Audit(x, full[client.AuditFilter]())) },
	"get-portal":         func(x ctx, c *client.Client) (any, error) { return answered(c.Portal(x)) },
	"set-portal": func(x ctx, c *client.Client) (any, error) {
		return answered(c.SetPortal(x, full[apitypes.PortalUpdate]()))
	},
	"get-portal-logo":    func(x ctx, c *client.Client) (any, error) { return answered(c.PortalLogo(x)) },
	"set-portal-logo":    func(x ctx, c *client.Client) (any, error) { return answered(c.SetPortalLogo(x, []byte("png"))) },
	"delete-portal-logo": func(x ctx, c *client.Client) (any, error) { return nil, c.DeletePortalLogo(x) },

	"list-dead-letters": func(x ctx, c *client.Client) (any, error) {
		return answered(c.DeadLetters(x, full[client.DeadLetterFilter]()))
	},
	"list-dead-letter-groups": func(x ctx, c *client.Client) (any, error) {
		return answered(c.DeadLetterGroups(x, full[client.DeadLetterGroupFilter]()))
	},
	"list-notices": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Notices(x, full[client.NoticeFilter]()))
	},
	"list-notice-destinations": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Destinations(x, full[client.DestinationFilter]()))
	},
	"create-notice-destination": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateDestination(x, full[apitypes.DestinationCreate]()))
	},
	"get-notice-destination": func(x ctx, c *client.Client) (any, error) { return answered(c.Destination(x, dst)) },
	"update-notice-destination": func(x ctx, c *client.Client) (any, error) {
		return answered(c.ChangeDestination(x, dst, full[apitypes.DestinationUpdate]()))
	},
	"delete-notice-destination": func(x ctx, c *client.Client) (any, error) { return nil, c.DeleteDestination(x, dst) },
	"ask-notice-destination":    func(x ctx, c *client.Client) (any, error) { return answered(c.AskToConfirm(x, dst)) },
	"test-notice-destination":   func(x ctx, c *client.Client) (any, error) { return answered(c.TestDestination(x, dst)) },

	"create-expunge": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateExpunge(x, full[apitypes.ExpungeCreate]()))
	},
	"list-expunges": func(x ctx, c *client.Client) (any, error) { return answered(c.Expunges(x, true, pg)) },
	"get-expunge":   func(x ctx, c *client.Client) (any, error) { return answered(c.Expunge(x, xpg)) },

	"get-hold":                func(x ctx, c *client.Client) (any, error) { return answered(c.Hold(x)) },
	"resume-after-restore":    func(x ctx, c *client.Client) (any, error) { return answered(c.ResumeAfterRestore(x)) },
	"list-nodes":              func(x ctx, c *client.Client) (any, error) { return answered(c.Nodes(x)) },
	"list-troubled-endpoints": func(x ctx, c *client.Client) (any, error) { return answered(c.TroubledEndpoints(x)) },
	"search": func(x ctx, c *client.Client) (any, error) {
		return answered(c.SearchHits(x, client.SearchFilter{Text: "text", Account: "acme"}))
	},
	"get-dead-letter":     func(x ctx, c *client.Client) (any, error) { return answered(c.DeadLetter(x, dlv)) },
	"discard-dead-letter": func(x ctx, c *client.Client) (any, error) { return answered(c.DiscardDeadLetter(x, dlv, "r")) },
	"replay-dead-letter":  func(x ctx, c *client.Client) (any, error) { return answered(c.ReplayDeadLetter(x, dlv)) },

	"create-replay": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateReplay(x, full[apitypes.ReplayCreate]()))
	},
	"count-replay": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CountReplay(x, full[apitypes.ReplayCreate]()))
	},
	"backfill-endpoint": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Backfill(x, ep, full[apitypes.Backfill]()))
	},
	"count-backfill": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CountBackfill(x, ep, full[apitypes.Backfill]()))
	},
	"list-replays":  func(x ctx, c *client.Client) (any, error) { return answered(c.Replays(x, full[client.ReplayFilter]())) },
	"get-replay":    func(x ctx, c *client.Client) (any, error) { return answered(c.Replay(x, rpl)) },
	"pause-replay":  func(x ctx, c *client.Client) (any, error) { return answered(c.PauseReplay(x, rpl)) },
	"resume-replay": func(x ctx, c *client.Client) (any, error) { return answered(c.ResumeReplay(x, rpl)) },
	"cancel-replay": func(x ctx, c *client.Client) (any, error) { return answered(c.CancelReplay(x, rpl)) },

	"list-deliveries": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Deliveries(x, full[client.DeliveryFilter]()))
	},
	"get-delivery":        func(x ctx, c *client.Client) (any, error) { return answered(c.Delivery(x, dlv)) },
	"list-attempts":       func(x ctx, c *client.Client) (any, error) { return answered(c.Attempts(x, dlv, pg)) },
	"get-attempt-request": func(x ctx, c *client.Client) (any, error) { return answered(c.AttemptRequest(x, dlv, 1)) },
	"cancel-delivery":     func(x ctx, c *client.Client) (any, error) { return answered(c.CancelDelivery(x, dlv)) },
	"retry-delivery":      func(x ctx, c *client.Client) (any, error) { return answered(c.RetryDelivery(x, dlv)) },
	"release-delivery":    func(x ctx, c *client.Client) (any, error) { return answered(c.ReleaseDelivery(x, dlv)) },
	"replay-delivery":     func(x ctx, c *client.Client) (any, error) { return answered(c.ReplayDelivery(x, dlv)) },

	"list-endpoints": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Endpoints(x, full[client.EndpointFilter]()))
	},
	"create-endpoint": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateEndpoint(x, full[apitypes.EndpointCreate]()))
	},
	"delete-endpoint": func(x ctx, c *client.Client) (any, error) { return nil, c.DeleteEndpoint(x, ep) },
	"get-endpoint":    func(x ctx, c *client.Client) (any, error) { return answered(c.Endpoint(x, ep)) },
	"update-endpoint": func(x ctx, c *client.Client) (any, error) {
		return answered(c.IfRevision(1).ChangeEndpoint(x, ep, full[apitypes.EndpointUpdate]()))
	},
	"put-endpoint": func(x ctx, c *client.Client) (any, error) {
		return answered(c.IfRevision(1).PutEndpoint(x, "acme:main", full[apitypes.EndpointPut]()))
	},
	"put-account": func(x ctx, c *client.Client) (any, error) {
		return answered(c.IfRevision(1).PutAccount(x, "acme", full[apitypes.AccountPut]()))
	},
	"put-event-type": func(x ctx, c *client.Client) (any, error) {
		return answered(c.IfRevision(1).PutEventType(x, "order.paid", full[apitypes.EventTypePut]()))
	},
	"list-sources": func(x ctx, c *client.Client) (any, error) { return answered(c.Sources(x)) },
	"get-source":   func(x ctx, c *client.Client) (any, error) { return answered(c.Source(x, "shop")) },
	"put-source": func(x ctx, c *client.Client) (any, error) {
		return answered(c.PutSource(x, "shop", full[apitypes.SourcePut](), true))
	},
	"delete-source":    func(x ctx, c *client.Client) (any, error) { return nil, c.DeleteSource(x, "shop") },
	"pause-source":     func(x ctx, c *client.Client) (any, error) { return answered(c.PauseSource(x, "shop")) },
	"resume-source":    func(x ctx, c *client.Client) (any, error) { return answered(c.ResumeSource(x, "shop")) },
	"get-source-state": func(x ctx, c *client.Client) (any, error) { return answered(c.SourceState(x, "shop")) },
	"list-rejected-rows": func(x ctx, c *client.Client) (any, error) {
		return answered(c.RejectedRows(x, "shop", full[client.RejectedFilter]()))
	},
	"retry-rejected-rows": func(x ctx, c *client.Client) (any, error) {
		return answered(c.RetryRejected(x, "shop", full[apitypes.RejectedRetry]()))
	},
	"discard-rejected-rows": func(x ctx, c *client.Client) (any, error) {
		return answered(c.DiscardRejected(x, "shop", full[apitypes.RejectedSelect]()))
	},
	"list-inspections": func(x ctx, c *client.Client) (any, error) { return answered(c.Inspections(x, ep, pg)) },
	"get-inspection": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Inspection(x, ep, postrider.InspectionID{}))
	},
	"get-circuit": func(x ctx, c *client.Client) (any, error) { return answered(c.Circuit(x, ep)) },
	"set-circuit": func(x ctx, c *client.Client) (any, error) {
		return answered(c.SetCircuit(x, ep, postrider.CircuitOpen))
	},
	"disable-endpoint": func(x ctx, c *client.Client) (any, error) { return answered(c.DisableEndpoint(x, ep, "r")) },
	"enable-endpoint":  func(x ctx, c *client.Client) (any, error) { return answered(c.EnableEndpoint(x, ep)) },
	"pause-endpoint":   func(x ctx, c *client.Client) (any, error) { return answered(c.PauseEndpoint(x, ep, "r")) },
	"resume-endpoint":  func(x ctx, c *client.Client) (any, error) { return answered(c.ResumeEndpoint(x, ep)) },
	"test-endpoint": func(x ctx, c *client.Client) (any, error) {
		return answered(c.TestEndpoint(x, ep, full[apitypes.EndpointTest]()))
	},
	"verify-endpoint":    func(x ctx, c *client.Client) (any, error) { return answered(c.VerifyEndpoint(x, ep, "challenge")) },
	"list-secrets":       func(x ctx, c *client.Client) (any, error) { return answered(c.Secrets(x, ep)) },
	"list-secret-states": func(x ctx, c *client.Client) (any, error) { return answered(c.SecretStates(x, ep)) },
	"reveal-secret":      func(x ctx, c *client.Client) (any, error) { return answered(c.RevealSecret(x, ep, sec)) },
	"rotate-secret": func(x ctx, c *client.Client) (any, error) {
		return answered(c.RotateSecret(x, ep, full[apitypes.SecretRotation]()))
	},
	"revoke-secret":     func(x ctx, c *client.Client) (any, error) { return nil, c.RevokeSecret(x, ep, sec) },
	"reencrypt-secrets": func(x ctx, c *client.Client) (any, error) { return answered(c.Reencrypt(x)) },
	"list-endpoint-deliveries": func(x ctx, c *client.Client) (any, error) {
		return answered(c.EndpointDeliveries(x, ep, full[client.EndpointDeliveryFilter]()))
	},
	"list-ordering-keys":   func(x ctx, c *client.Client) (any, error) { return answered(c.OrderingKeys(x, ep, pg)) },
	"list-endpoint-health": func(x ctx, c *client.Client) (any, error) { return answered(c.EndpointHealth(x, ep, pg)) },

	"get-stats": func(x ctx, c *client.Client) (any, error) { return answered(c.Stats(x, full[client.StatsQuery]())) },
	"get-account-stats": func(x ctx, c *client.Client) (any, error) {
		return answered(c.AccountStats(x, "a", full[client.StatsQuery]()))
	},
	"get-endpoint-stats": func(x ctx, c *client.Client) (any, error) {
		return answered(c.EndpointStats(x, ep, full[client.StatsQuery]()))
	},

	"list-event-types": func(x ctx, c *client.Client) (any, error) { return answered(c.EventTypes(x, pg)) },
	"create-event-type": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CreateEventType(x, full[apitypes.EventTypeCreate]()))
	},
	"delete-event-type": func(x ctx, c *client.Client) (any, error) { return nil, c.DeleteEventType(x, "a") },
	"get-event-type":    func(x ctx, c *client.Client) (any, error) { return answered(c.EventType(x, "a")) },
	"update-event-type": func(x ctx, c *client.Client) (any, error) {
		return answered(c.IfRevision(1).ChangeEventType(x, "a", full[apitypes.EventTypeUpdate]()))
	},

	"list-events": func(x ctx, c *client.Client) (any, error) { return answered(c.Events(x, full[client.EventFilter]())) },
	"publish-event": func(x ctx, c *client.Client) (any, error) {
		return answered(c.Publish(x, full[apitypes.EventCreate]()))
	},
	"publish-events": func(x ctx, c *client.Client) (any, error) {
		return answered(c.PublishBatch(x, []apitypes.EventCreate{full[apitypes.EventCreate]()}))
	},
	"get-event":     func(x ctx, c *client.Client) (any, error) { return answered(c.Event(x, evt)) },
	"explain-event": func(x ctx, c *client.Client) (any, error) { return answered(c.ExplainEvent(x, evt, "acme-1")) },
	"try-subscription": func(x ctx, c *client.Client) (any, error) {
		return answered(c.TrySubscription(x, full[apitypes.DryRun]()))
	},
	"what-if": func(x ctx, c *client.Client) (any, error) { return answered(c.WhatIf(x, ep, full[apitypes.WhatIf]())) },
	"compare-archive": func(x ctx, c *client.Client) (any, error) {
		return answered(c.CompareArchive(x, ep, full[apitypes.ArchiveWhatIf]()))
	},
	"get-archive-comparison":    func(x ctx, c *client.Client) (any, error) { return answered(c.ArchiveComparison(x, ep)) },
	"cancel-archive-comparison": func(x ctx, c *client.Client) (any, error) { return nil, c.CancelArchiveComparison(x, ep) },
	"list-event-attempts":       func(x ctx, c *client.Client) (any, error) { return answered(c.EventAttempts(x, evt, pg)) },
	"list-event-deliveries":     func(x ctx, c *client.Client) (any, error) { return answered(c.EventDeliveries(x, evt, pg)) },
	"replay-event": func(x ctx, c *client.Client) (any, error) {
		return answered(c.ReplayEvent(x, evt, full[apitypes.EventReplay]()))
	},
}

// without are operations that have no method, with the reason.
var without = map[string]string{
	"replay-endpoint-delivery": "ReplayDelivery does the same with less to know",
}

// unsent are parameters and fields that no method sends, with the reason.
var unsent = map[string]string{
	"list-accounts uid":             "Account takes a uid",
	"publish-event Idempotency-Key": "the key is in the body",
	"list-event-deliveries order":   "Deliveries takes an event and an order",
	"resume-endpoint reason":        "a reason says why an endpoint is not enabled",
	"enable-endpoint reason":        "a reason says why an endpoint is not enabled",
}

// document is the part of an OpenAPI document that these tests read.
type document struct {
	Paths map[string]map[string]struct {
		ID         string `json:"operationId"`
		Parameters []struct{ Name, In string }
		Body       struct {
			Content map[string]struct{ Schema schema }
		} `json:"requestBody"`
		Responses map[string]struct {
			Content map[string]struct{ Schema schema }
		} `json:"responses"`
	}
	Components struct{ Schemas map[string]schema }
}

func readDocument(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile("../docs/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheClientIsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	known := map[string]bool{}
	for path, methods := range d.Paths {
		for method, op := range methods {
			known[op.ID] = true
			call, ok := calls[op.ID]
			if !ok {
				if without[op.ID] == "" {
					t.Errorf("%s has neither a method nor a reason", op.ID)
				}
				continue
			}
			t.Run(op.ID, func(t *testing.T) {
				t.Parallel()
				got, answer := observe(t, op.Responses, call)
				if !pathOf(path).MatchString(got.path) || got.method != strings.ToUpper(method) {
					t.Errorf("request = %s %s, want %s %s", got.method, got.path, method, path)
				}
				for _, p := range op.Parameters {
					there := p.In == "path" || p.In == "query" && got.query.Has(p.Name) || p.In == "header" && got.header.Get(p.Name) != ""
					if !there && unsent[op.ID+" "+p.Name] == "" {
						t.Errorf("the %s parameter %s is not sent", p.In, p.Name)
					}
					got.query.Del(p.Name)
				}
				if len(got.query) > 0 {
					t.Errorf("parameters that the document does not have: %v", got.query)
				}
				body := d.resolve(op.Body.Content["application/json"].Schema)
				d.compareBody(t, op.ID, body, got.body)
				for status, r := range op.Responses {
					if s, ok := r.Content["application/json"]; ok && status != "default" {
						d.compare(t, op.ID, s.Schema, reflect.TypeOf(answer))
					}
				}
			})
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(calls)), slices.Collect(maps.Keys(without))) {
		if !known[id] {
			t.Errorf("%s is no operation of the document", id)
		}
	}
}

func pathOf(template string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(template, `[^/]+`) + "$")
}

// observed is a request as the server received it.
type observed struct {
	method, path string
	query        url.Values
	header       http.Header
	body         map[string]any
}

// observe makes a call to a server that responds with an empty object.
func observe[R any](t *testing.T, responses map[string]R, call func(ctx, *client.Client) (any, error)) (got observed, answer any) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = observed{method: r.Method, path: r.URL.Path, query: r.URL.Query(), header: r.Header}
		text, err := io.ReadAll(r.Body)
		if err == nil && len(text) > 0 {
			err = json.Unmarshal(text, &got.body)
		}
		if err != nil {
			t.Errorf("body: %v", err)
		}
		if _, empty := responses["204"]; empty {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	c := client.New(server.URL, "k", client.Options{Attempts: 1})
	defer c.Close()
	answer, err := call(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got, answer
}

func (d document) resolve(s schema) schema {
	if ref, ok := s["$ref"].(string); ok {
		return d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	}
	return s
}

// properties returns the properties of an object, by name.
func (d document) properties(s schema) map[string]schema {
	found := map[string]schema{}
	all, _ := s["properties"].(map[string]any)
	for name, property := range all {
		found[name], _ = property.(map[string]any)
	}
	return found
}

// compareBody compares a body in which every field is set with its schema.
func (d document) compareBody(t *testing.T, op string, s schema, body map[string]any) {
	t.Helper()
	for name, property := range d.properties(s) {
		value, there := body[name]
		if !there && unsent[op+" "+name] == "" {
			t.Errorf("the field %s is not sent", name)
		}
		if there {
			d.compareValue(t, name, property, value)
		}
	}
	if _, anyName := s["additionalProperties"].(map[string]any); anyName {
		return
	}
	for name := range body {
		if _, known := d.properties(s)[name]; !known && s["additionalProperties"] == nil {
			t.Errorf("the field %s is not in the document", name)
		}
	}
}

// compareValue compares a value that was sent with its schema.
func (d document) compareValue(t *testing.T, at string, s schema, value any) {
	t.Helper()
	s = d.resolve(s)
	switch value := value.(type) {
	case map[string]any:
		if !slices.Contains(typesOf(s), "object") && s["oneOf"] == nil && len(typesOf(s)) > 0 {
			t.Errorf("%s: an object, the document says %v", at, typesOf(s))
		}
		if s["oneOf"] == nil && len(typesOf(s)) > 0 {
			d.compareBody(t, at, s, value)
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		for _, item := range value {
			d.compareValue(t, at+"[]", items, item)
		}
	}
}

// compare compares the Go type of a response with its schema, field by field.
func (d document) compare(t *testing.T, at string, s schema, is reflect.Type) {
	t.Helper()
	s = d.resolve(s)
	for is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	if o, ok := reflect.TypeAssert[optional](reflect.New(is)); ok {
		is = reflect.TypeOf(o.SetValue()).Elem()
	}
	if form := d.form(s); form != nil {
		s = form
	}
	want := kindOf(s)
	if got := goKind(is); got != want && want != "" {
		// The method returns only the list of a page.
		if data, list := d.properties(s)["data"]; list && got == "array" {
			d.compare(t, at, data, is)
			return
		}
		t.Errorf("%s: %s is %s, the document says %s", at, is, got, want)
		return
	}
	switch want {
	case "array":
		items, _ := s["items"].(map[string]any)
		if is.Kind() == reflect.Slice && is.Elem().Kind() != reflect.Uint8 {
			d.compare(t, at+"[]", items, is.Elem())
		}
	case "object":
		if is.Kind() != reflect.Map { // a map may have any names
			d.compareFields(t, at, s, is)
		}
	}
}

// form returns the object schema among the forms of a schema.
func (d document) form(s schema) schema {
	forms, _ := s["oneOf"].([]any)
	for _, form := range forms {
		if form, ok := form.(map[string]any); ok && kindOf(form) == "object" {
			return form
		}
	}
	return nil
}

func (d document) compareFields(t *testing.T, at string, s schema, is reflect.Type) {
	t.Helper()
	var got []string
	for _, field := range reflect.VisibleFields(is) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		got = append(got, name)
		if property, ok := d.properties(s)[name]; ok {
			d.compare(t, at+"."+name, property, field.Type)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(d.properties(s))), got); diff != "" {
		t.Errorf("%s: fields of %s (-document +client):\n%s", at, is, diff)
	}
}

func typesOf(s schema) (types []string) {
	switch is := s["type"].(type) {
	case string:
		return []string{is}
	case []any:
		for _, one := range is {
			name, _ := one.(string)
			types = append(types, name)
		}
	}
	return types
}

// kindOf returns the type of a schema other than null; empty: any type.
func kindOf(s schema) string {
	for _, is := range typesOf(s) {
		if is != "null" {
			return is
		}
	}
	return ""
}

func goKind(is reflect.Type) string {
	if is.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || is == reflect.TypeFor[time.Time]() || is == reflect.TypeFor[[]byte]() {
		return "string"
	}
	switch is.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	default:
		return "object"
	}
}
