package main

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// commandOf has the command for each operation of the API. Some operations are a flag of a command.
var commandOf = map[string]string{
	"list-accounts":  "accounts list",
	"create-account": "accounts create",
	"get-account":    "accounts get",
	"delete-account": "accounts delete",
	"update-account": "accounts update",
	"put-account":    "accounts put",

	"get-account-quotas":    "accounts quotas",
	"update-account-quotas": "accounts quotas --events-per-second",

	"list-api-keys":  "keys list",
	"create-api-key": "keys create",
	"get-api-key":    "keys get",
	"revoke-api-key": "keys revoke",

	"list-notice-destinations":  "notice-destinations list",
	"create-notice-destination": "notice-destinations add",
	"get-notice-destination":    "notice-destinations get",
	"update-notice-destination": "notice-destinations update",
	"delete-notice-destination": "notice-destinations delete",
	"ask-notice-destination":    "notice-destinations ask",
	"test-notice-destination":   "notice-destinations test",

	"create-portal-session": "portal link",
	"get-portal":            "portal get",
	"set-portal":            "portal set",
	"get-portal-logo":       "portal logo get",
	"set-portal-logo":       "portal logo set",
	"delete-portal-logo":    "portal logo delete",
	"list-sessions":         "sessions list",
	"revoke-session":        "sessions revoke",
	"list-audit-entries":    "audit",
	"list-notices":          "notices",

	"list-dead-letters":       "dead-letters list",
	"get-dead-letter":         "dead-letters get",
	"list-dead-letter-groups": "dead-letters groups",
	"search":                  "search",
	"list-nodes":              "nodes",
	"get-hold":                "resume",
	"resume-after-restore":    "resume --after-restore",
	"list-troubled-endpoints": "endpoints troubled",
	"discard-dead-letter":     "dead-letters discard",
	"replay-dead-letter":      "dead-letters replay",

	"list-archive-parts":    "archive list",
	"verify-archive-part":   "archive verify",
	"search-archive":        "archive search",
	"restore-archive":       "archive restore",
	"list-restored-records": "archive restored",

	"create-expunge": "expunge event",
	"list-expunges":  "expunge list",
	"get-expunge":    "expunge get",

	"create-replay":     "replays create",
	"count-replay":      "replays create --dry-run",
	"backfill-endpoint": "endpoints backfill",
	"count-backfill":    "endpoints backfill --dry-run",
	"list-replays":      "replays list",
	"get-replay":        "replays get",
	"pause-replay":      "replays pause",
	"resume-replay":     "replays resume",
	"cancel-replay":     "replays cancel",

	"list-deliveries":          "deliveries list",
	"get-delivery":             "deliveries get",
	"list-attempts":            "deliveries attempts",
	"get-attempt-request":      "deliveries request",
	"cancel-delivery":          "deliveries cancel",
	"retry-delivery":           "deliveries retry",
	"release-delivery":         "deliveries release",
	"replay-delivery":          "replay",
	"list-endpoint-deliveries": "deliveries list --endpoint",
	"replay-endpoint-delivery": "replay",

	"list-endpoints":       "endpoints list",
	"create-endpoint":      "endpoints create",
	"get-endpoint":         "endpoints get",
	"update-endpoint":      "endpoints update",
	"put-endpoint":         "endpoints put",
	"delete-endpoint":      "endpoints delete",
	"get-circuit":          "endpoints circuit",
	"set-circuit":          "endpoints circuit --set",
	"disable-endpoint":     "endpoints disable",
	"enable-endpoint":      "endpoints enable",
	"pause-endpoint":       "endpoints pause",
	"resume-endpoint":      "endpoints resume",
	"test-endpoint":        "endpoints test",
	"verify-endpoint":      "endpoints verify",
	"list-ordering-keys":   "endpoints ordering-keys",
	"list-endpoint-health": "endpoints health",
	"list-inspections":     "endpoints requests",
	"get-inspection":       "endpoints request",
	"get-stats":            "stats",
	"get-account-stats":    "stats --account",
	"get-endpoint-stats":   "stats --endpoint",
	"list-secrets":         "endpoints secrets",
	"list-secret-states":   "endpoints secrets --states",
	"reveal-secret":        "endpoints reveal-secret",
	"rotate-secret":        "endpoints rotate",
	"revoke-secret":        "endpoints revoke-secret",
	"reencrypt-secrets":    "secrets rotate-key",

	"list-sources":          "sources list",
	"get-source":            "sources get",
	"get-source-state":      "sources state",
	"put-source":            "sources put",
	"delete-source":         "sources delete",
	"pause-source":          "sources pause",
	"resume-source":         "sources resume",
	"list-rejected-rows":    "sources rejected",
	"retry-rejected-rows":   "sources retry",
	"discard-rejected-rows": "sources discard",

	"list-event-types":  "event-types list",
	"get-event-type":    "event-types get",
	"create-event-type": "event-types put",
	"update-event-type": "event-types update",
	"put-event-type":    "event-types put",
	"delete-event-type": "event-types delete",

	"publish-event":         "send",
	"publish-events":        "events publish",
	"list-events":           "events list",
	"get-event":             "events get",
	"list-event-deliveries": "events deliveries",
	"explain-event":         "events explain",
	"try-subscription":      "endpoints try",
	"what-if":               "endpoints what-if",

	"compare-archive":           "archive what-if start",
	"get-archive-comparison":    "archive what-if get",
	"cancel-archive-comparison": "archive what-if cancel",

	"list-event-attempts": "events attempts",
	"replay-event":        "events replay",
}

// flagOfParameter has the flags of parameters with another name.
var flagOfParameter = map[string]string{"order": "oldest-first", "metadata.KEY": "metadata", "If-Match": "if-revision"}

// flagless has the parameters of lists for which there is no flag, and the reason.
var flagless = map[string]string{
	"search q":                      "it is the argument",
	"list-accounts uid":             "accounts get takes a uid",
	"search-archive limit":          "all are printed",
	"search-archive cursor":         "all are printed",
	"list-restored-records limit":   "all are printed",
	"list-restored-records cursor":  "all are printed",
	"list-api-keys limit":           "all are listed",
	"list-api-keys cursor":          "all are listed",
	"list-event-deliveries order":   "deliveries list --event has it",
	"publish-event Idempotency-Key": "--idempotency-key puts it into the body",
	"publish-event Webhook-Hops":    "a person passes no webhook on",
	"publish-events Webhook-Hops":   "a person passes no webhook on",
	"publish-event traceparent":     "a person has no span",
	"publish-events traceparent":    "a person has no span",
	"publish-event tracestate":      "a person has no span",
	"publish-events tracestate":     "a person has no span",
}

// TestEveryOperationOfTheOpenAPIDocumentHasACommand looks for the command of each operation in the
// program. The command must have a flag or an argument for each parameter.
func TestEveryOperationOfTheOpenAPIDocumentHasACommand(t *testing.T) {
	t.Parallel()
	parser, err := newParser(terminal{strings.NewReader(""), io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, methods := range document.Paths {
		for _, op := range methods {
			known[op.ID] = true
			command := commandOf[op.ID]
			if command == "" {
				t.Errorf("operation %s has no command", op.ID)
				continue
			}
			node := parser.Model.Node
			for word := range strings.FieldsSeq(command) {
				if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
					if !hasFlag(node, name) {
						t.Errorf("operation %s: there is no flag %s", op.ID, command)
					}
				} else if node = childOf(node, word); node == nil {
					t.Fatalf("operation %s: there is no command %s", op.ID, command)
				}
			}
			for _, p := range op.Parameters {
				flag := cmp.Or(flagOfParameter[p.Name], strings.ReplaceAll(p.Name, "_", "-"))
				if p.In != "path" && !hasFlag(node, flag) && flagless[op.ID+" "+p.Name] == "" {
					t.Errorf("operation %s: %s has no flag for %s", op.ID, command, p.Name)
				}
			}
		}
	}
	for id := range commandOf {
		if !known[id] {
			t.Errorf("%s is no operation of the document", id)
		}
	}
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func hasFlag(node *kong.Node, name string) bool {
	for _, flags := range node.AllFlags(true) {
		for _, f := range flags {
			if f.Name == name {
				return true
			}
		}
	}
	return false
}
