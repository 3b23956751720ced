package sqlite

// This test is inside the package, because the statements are not exported.

import (
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
	"github.com/postrider/postrider/internal/store/storetest"
)

// two returns the text of a bulk statement for two rows.
func two(b bulk) string { return b.head + tuples(2, b.columns) + b.tail }

// statements has, by name, the statements that run for every delivery, and those that lists use.
// TestNoStatementWalksAWholeTable has the rule for all of them.
var statements = map[string]string{
	"spend_quota":                        spendQuotaSQL,
	"backlog_next":                       nextBacklogSQL,
	"backlog_count":                      countBacklogSQL,
	"claim":                              claimSQL,
	"claim_fan_outs":                     claimFanOutsSQL,
	"claimed_events":                     two(bulk{claimedEventsSQL, ")", 1}),
	"dead_letters_of_event":              oldestFirst.Replace(deadLettersOf(store.DeadLetterQuery{Event: postrider.EventID{1}})),
	"dead_letters_of_account":            deadLettersOf(store.DeadLetterQuery{Account: postrider.AccountID{1}}),
	"dead_letters_of_endpoint":           deadLettersOf(store.DeadLetterQuery{Endpoint: postrider.EndpointID{1}}),
	"dead_letters_of_reason":             deadLettersOf(store.DeadLetterQuery{Reason: "gone"}),
	"dead_letters_of_reason_and_account": deadLettersOf(store.DeadLetterQuery{Account: postrider.AccountID{1}, Reason: "gone"}),
	"dead_letters_of_account_stop":       deadOfAccountStopSQL,
	"dead_letters_of_endpoint_stop":      deadOfEndpointStopSQL,
	"deliveries_ended_stop":              endedStopSQL,
	"deliveries_ended_of_account_stop":   endedOfAccountStopSQL,
	"deliveries_ended_of_endpoint_stop":  endedOfEndpointStopSQL,
	"deliveries_pending_of_job_stop":     pendingOfJobStopSQL,
	"deliveries_dead_of_job_stop":        deadOfJobStopSQL,
	"deliveries_ended_of_job_stop":       endedOfJobStopSQL,
	"deliveries_pending_stop":            pendingStopSQL,
	"decided_of_account_stop":            decidedOfAccountStopSQL,
	"decided_stop":                       decidedStopSQL,
	"events_of_account_stop":             eventsOfAccountStopSQL,
	"events_of_order_stop":               eventsOfOrderStopSQL,
	"events_stop":                        eventsStopSQL,
	"decided":                            decidedSQL,
	"decided_of_account":                 decidedOfAccountSQL,
	"decided_of_endpoint":                decidedOfEndpointSQL,
	"deleted":                            deletedSQL,
	"deleted_pauses":                     deletedPausesSQL,
	"deliveries":                         deliveriesSQL,
	"deliveries_of_account":              deliveriesOfAccountSQL,
	"deliveries_of_endpoint":             deliveriesOfEndpointSQL,
	"deliveries_of_endpoint_bare":        bareOfEndpointSQL,
	"deliveries_of_queued":               deliveriesOfQueuedSQL,
	"is_queued":                          isQueuedSQL,
	"deliveries_of_job":                  deliveriesOfJobSQL,
	"deliveries_of_event":                deliveriesOfEventSQL,
	"delivery":                           deliverySQL,
	"due":                                dueSQL,
	"due_counted":                        dueCountedSQL,
	"due_newer":                          dueNewerSQL,
	"end":                                two(bulk{endSQL, ")", 1}),
	"event_of_key":                       eventOfKeySQL,
	"events_of_order":                    eventsOfOrderSQL,
	"deliveries_oldest_first":            oldestFirst.Replace(deliveriesOfAccountSQL),
	"events_of_account":                  eventsOfAccountSQL,
	"expired":                            expiredSQL,
	"leased":                             two(bulk{leasedSQL, ")", 1}),
	"key_owner":                          keyOwnerSQL,
	"archived_attempts":                  archivedAttemptsSQL,
	"archived_bodies":                    archivedBodiesSQL,
	"archived_events":                    archivedEventsSQL,
	"only_attempt":                       onlyAttemptSQL,
	"only_body":                          onlyBodySQL,
	"only_event":                         onlyEventSQL,
	"archive_count_attempts":             countAttemptsSQL,
	"archive_count_bodies":               countBodiesSQL,
	"archive_count_events":               countEventsSQL,
	"archive_attempts_of_part":           attemptsOfPartSQL,
	"archive_bodies_of_part":             bodiesOfPartSQL,
	"archive_events_of_part":             eventsOfPartSQL,
	"forget_event":                       forgetEventSQL,
	"forget_terms":                       forgetTermsSQL,
	"forget_attempts":                    forgottenAttemptsSQL,
	"forget_bodies":                      forgottenBodiesSQL,
	"forget_events":                      forgottenEventsSQL,
	"forget_ordering_key":                forgetOrderingKeySQL,
	"delete_attempt":                     deleteAttemptSQL,
	"delete_body":                        deleteBodySQL,
	"delete_key":                         deleteKeySQL,
	"ordering_keys":                      orderingKeysSQL,
	"key_blocked":                        keyBlockedSQL,
	"lease":                              two(bulk{leaseSQL, leaseTail, 3}),
	"move":                               moveSQL,
	"newest_event":                       newestEventSQL,
	"next_sequence":                      nextSequenceSQL,
	"release_head":                       releaseHeadSQL,
	"ordered_keys":                       orderedKeysSQL,
	"pause":                              pauseSQL,
	"recorded":                           recordedSQL,
	"recorded_rows":                      two(bulk{recordedRowsSQL, ")", 1}),
	"release":                            releaseSQL,
	"continuable":                        continuableSQL,
	"continue":                           continueSQL,
	"replay_chunk":                       moveReplayJobSQL,
	"replay_defer":                       deferHeadSQL,
	"replay_insert":                      insertReplayOfJobSQL,
	"replay_released":                    keyReleasedSQL,
	"resolution":                         resolutionSQL,
	"sequences":                          two(bulk{sequencesSQL, ")", 1}),
	"suspect":                            two(bulk{suspectSQL, suspectTail, 2}),
	"make_due":                           makeDueSQL,
	"make_due_parked":                    releaseParkedSQL,
	"unpause":                            unpauseSQL,
	"waiting":                            waitingSQL,
}

// deadLettersOf returns the statement that lists the dead letters of a query.
func deadLettersOf(q store.DeadLetterQuery) string {
	return deadLettersSelect + deadLettersWhere(q) + deadLettersFilter
}

// hot has the statements that run for every delivery, by the file in testdata/plans that has
// their plans. So a change of an index shows as a difference.
var hot = map[string][]string{
	"claim": {
		"claim", "claim_fan_outs", "claimed_events", "due", "due_counted", "due_newer", "is_queued", "lease", "leased", "recorded", "suspect",
	},
	"order":   {"key_blocked", "move", "next_sequence", "pause", "release_head", "sequences", "unpause", "waiting"},
	"publish": {"event_of_key", "key_owner", "newest_event", "recorded_rows", "spend_quota"},
	"settle":  {"continuable", "continue", "end", "expired", "make_due", "make_due_parked", "release"},
}

// opened returns a store without rows.
func opened(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s := opened(t)
	for file, names := range hot {
		var plans strings.Builder
		for _, name := range names {
			fmt.Fprintf(&plans, "%s\n%s\n", name, plan(t, s.reads.DB, statements[name]))
		}
		goldenPlan(t, file, plans.String())
	}
	files, err := os.ReadDir(filepath.Join("testdata", "plans"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := hot[strings.TrimSuffix(file.Name(), ".txt")]; !ok {
			t.Errorf("testdata/plans/%s has the plans of no statement", file.Name())
		}
	}
}

// walksAll has the statements that may walk a table from its end without a condition, or sort the
// rows that they find: the reason, and how often they run.
var walksAll = map[string]string{
	"backlog_next":                "stops at the first account with a limit of its own; in each round of the quotas, every 5 s",
	"deliveries_of_endpoint":      "sorts at most 1,000 rows: see isQueued; when a person opens a list",
	"deliveries_of_endpoint_bare": "as deliveries_of_endpoint; when a person compares a filter with the past",
	"expired":                     "reads the queue while nothing has expired: an index would cost each delivery; each minute",
}

// few has the tables and the indexes that have few rows at any time, or grow as slowly as the
// number of endpoints. A statement may walk all of them. rollup_deltas has the deltas of ten seconds.
var few = regexp.MustCompile(`^(fanouts|hold|keyring|notices_published|portal|replay_jobs|rollup_deltas|rollup_positions|sources|subscriptions|` +
	`a USING INDEX accounts_deleted|d USING INDEX notice_destinations_operator|e USING COVERING INDEX endpoints_deleted)\b`)

// A plan has one line for each walk. A sort is a sibling of the walk whose rows it sorts.
var (
	walkLine  = regexp.MustCompile(`^( *)(SCAN|SEARCH) (\(?[\w-]+\)?)(.*)`)
	sortLine  = regexp.MustCompile(`(?m)^( *)USE TEMP B-TREE FOR (ORDER|GROUP|DISTINCT)`)
	tableName = regexp.MustCompile(`(?m)^create table (\w+)`)
)

// walks reports whether a plan walks one of the tables from its end, or sorts the rows of such a
// walk. Tables with an alias are recognised only by their index.
func walks(plan string, tables map[string]bool) bool {
	found := map[string]bool{} // by the indent of siblings: whether the last walk is over one of the tables
	for line := range strings.Lines(plan) {
		if m := sortLine.FindStringSubmatch(line); m != nil && found[m[1]] {
			return true
		}
		if m := walkLine.FindStringSubmatch(line); m != nil {
			ofTable := !few.MatchString(m[3]+m[4]) && (tables[m[3]] || strings.Contains(m[4], " USING "))
			if m[2] == "SCAN" && ofTable {
				return true
			}
			maps.DeleteFunc(found, func(indent string, _ bool) bool { return len(indent) > len(m[1]) })
			found[m[1]] = ofTable
		}
	}
	return false
}

// tableNames returns the tables of the schema.
func tableNames(t *testing.T) map[string]bool {
	t.Helper()
	schema, err := os.ReadFile(filepath.Join("migrations", "0001_tables.sql"))
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, m := range tableName.FindAllStringSubmatch(string(schema), -1) {
		tables[m[1]] = true
	}
	return tables
}

func TestNoStatementWalksAWholeTable(t *testing.T) {
	t.Parallel()
	s, tables := opened(t), tableNames(t)
	for name, statement := range statements {
		_, allowed := walksAll[name]
		if got := walks(plan(t, s.reads.DB, statement), tables); got != allowed {
			t.Errorf("%s: walks a whole table or sorts: %v; it is in walksAll: %v", name, got, allowed)
		}
	}
}

// mayCold has the verbs of package sqlstore that may walk a table or sort the rows that they find: the
// reason, and how often they run. The history is never walked.
var mayCold = map[string]string{
	"Backlog":           "stops after @most rows; when a person opens the overview",
	"ClaimDestinations": "of the destinations that are due, few have a notice; every 5 s",
	"EndpointStates":    "sorts the endpoints of a page; when a person opens the list of endpoints",
	"ExpungeRows":       "some tables have no index of the account, endpoint or event; for each chunk of an expunge, which is rare",
	"HealthInputs":      "sorts the endpoints of a page; every minute",
	"LastFailures":      "sorts at most FailuresLooked attempts of each endpoint of a page; when a person opens the list",
	"ReplaysPending":    "groups the pending deliveries of one replay job, a thousand; twice a second while it runs",
}

func TestFewStatementsWalkOrSort(t *testing.T) {
	t.Parallel()
	if n := len(walksAll) + len(mayCold); n > 11 {
		t.Errorf("%d statements may walk a table or sort, more than 11", n)
	}
}

var ofHistory = regexp.MustCompile(`SCAN (attempts|attempt_bodies|events|kept_events)\b`)

func TestNoColdStatementWalksAWholeTable(t *testing.T) {
	t.Parallel()
	s, tables := opened(t), tableNames(t)
	allowed := maps.Clone(mayCold)
	for _, statement := range storetest.Statements(t, cold{s}) {
		text := sqlstore.SQLite(statement.SQL)
		plan := plan(t, s.reads.DB, text)
		if !walks(plan, tables) {
			continue
		}
		delete(allowed, statement.Verb)
		if mayCold[statement.Verb] == "" || ofHistory.MatchString(plan) {
			t.Errorf("%s walks a whole table or sorts:\n%s\n%s", statement.Verb, text, plan)
		}
	}
	for verb := range allowed {
		t.Errorf("%s walks no whole table and sorts nothing: it is no exception any more", verb)
	}
}

// goldenPlan fails the test unless the file of that name has the plans. With -update it writes
// the file.
func goldenPlan(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "plans", name+".txt")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs, see -update (-want +got):\n%s", file, diff)
	}
}

var parameter = regexp.MustCompile(`[@]\w+|\?`)

// plan returns the statement's query plan as a tree.
func plan(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	args := []any{}
	for _, name := range parameter.FindAllString(statement, -1) {
		if name == "?" {
			args = append(args, nil)
			continue
		}
		args = append(args, sql.Named(name[1:], nil))
	}
	rows, err := db.QueryContext(t.Context(), "explain query plan "+statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var tree strings.Builder
	depths := map[int]int{0: -1}
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		depths[id] = depths[parent] + 1
		fmt.Fprintf(&tree, "%s%s\n", strings.Repeat("  ", depths[id]), detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tree.String()
}
