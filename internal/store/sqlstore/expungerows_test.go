package sqlstore

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/postrider/postrider"
)

// keptByExpunges are the tables with rows of an account that stay, and why.
var keptByExpunges = map[string]string{
	"accounts":         "blanked",
	"api_keys":         "blanked",
	"endpoints":        "blanked",
	"archive_keys":     "the caller deletes it",
	"audit":            "stays until its own retention ends; the answer of an expunge says so",
	"expunges":         "the proof",
	"queue":            "the caller has its deliveries cancelled before",
	"events":           "with their keys, apart",
	"kept_events":      "the same",
	"idempotency_keys": "go with their events, and the others at the end",
	"ordering_keys":    "go with their events; ForgetOrderingKeys removes the others within a day",
	"outbox_rows":      "go with their events; they have ids only",
	"attempts":         "with their bodies, apart",
	"rollup_deltas":    "folded within seconds into rollups, which go",
}

// A table that is added later with rows of an account must be removed too.
func TestTheExpungeOfAnAccountKnowsEveryTable(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("../postgres/migrations/0001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	plan := planExpunge(postrider.Expunge{Account: postrider.AccountID{1}})
	removed := map[string]bool{}
	for _, step := range plan.steps {
		removed[step.table] = true
	}
	ofAccounts := regexp.MustCompile(`(?m)^\s+(account|accounts|endpoint|endpoints|event)\s+(uuid|bytea)`)
	tables := regexp.MustCompile(`(?s)create table (\w+) \((.*?)\n\)`).FindAllSubmatch(schema, -1)
	if len(tables) < 30 {
		t.Fatalf("the schema has %d tables", len(tables))
	}
	var found []string
	for _, table := range tables {
		name := string(table[1])
		if !ofAccounts.Match(table[2]) {
			continue
		}
		found = append(found, name)
		if !removed[name] && keptByExpunges[name] == "" {
			t.Errorf("%s has rows of accounts, and no step of an expunge removes them", name)
		}
	}
	for name := range removed {
		if name != "search_terms" && name != "rollups" && !slices.Contains(found, name) {
			t.Errorf("the plan has the table %s, which the schema does not have with rows of accounts", name)
		}
	}
}
