package sqlite

// Inside the package: the statements are of no use to others.

import (
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// two returns the text of a bulk statement about two rows.
func two(b bulk) string { return b.head + tuples(2, b.columns) + b.tail }

// statements are, by name, the statements that run for every delivery or that
// every list is made of. Their query plans are kept in testdata/plans, so that a
// change of an index shows as a difference.
var statements = map[string]string{
	"attempts_of_delivery":               attemptsOfDeliverySQL,
	"attempts_of_event":                  attemptsOfEventSQL,
	"audit":                              auditSQL,
	"audit_of_account":                   auditOfAccountSQL,
	"audit_of_action":                    auditOfActionSQL,
	"audit_of_key":                       auditOfKeySQL,
	"audit_of_object":                    auditOfObjectSQL,
	"audit_of_session":                   auditOfSessionSQL,
	"changes":                            changesSQL,
	"circuit":                            circuitSQL,
	"circuits":                           circuitsSQL,
	"backlog_of_account":                 backlogOfAccountSQL,
	"backlog_of_all":                     backlogOfAllSQL,
	"backlog_of_endpoint":                backlogOfEndpointSQL,
	"circuits_failing":                   failingCircuitsSQL,
	"claim":                              claimSQL,
	"claim_fan_outs":                     claimFanOutsSQL,
	"claim_replay_jobs":                  claimReplayJobsSQL,
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
	"deliveries_of_job":                  deliveriesOfJobSQL,
	"deliveries_of_event":                deliveriesOfEventSQL,
	"delivery":                           deliverySQL,
	"due":                                dueSQL,
	"due_counted":                        dueCountedSQL,
	"due_newer":                          dueNewerSQL,
	"end":                                two(bulk{endSQL, ")", 1}),
	"endpoint_by_uid":                    endpointByUIDSQL,
	"endpoints_by_ids":                   endpointsByIDsSQL,
	"endpoints_of_account":               endpointsOfAccountSQL,
	"event_of_key":                       eventOfKeySQL,
	"events_of_order":                    eventsOfOrderSQL,
	"dead_letter_groups":                 deadLetterGroupsSQL,
	"find":                               findSQL,
	"find_of_account":                    findOfAccountSQL,
	"deliveries_oldest_first":            oldestFirst.Replace(deliveriesOfAccountSQL),
	"events_of_account":                  eventsOfAccountSQL,
	"expired":                            expiredSQL,
	"end_account_sessions":               endAccountSessionsSQL,
	"end_key_sessions":                   endKeySessionsSQL,
	"forget_keys":                        forgetKeysSQL,
	"forget_rollups":                     forgetRollupsSQL,
	"forget_sessions":                    forgetSessionsSQL,
	"leased":                             two(bulk{leasedSQL, ")", 1}),
	"key_owner":                          keyOwnerSQL,
	"redeem_code":                        redeemCodeSQL,
	"sessions":                           sessionsSQL,
	"sessions_by_account":                sessionsByAccountSQL,
	"sessions_by_code":                   sessionsByCodeSQL,
	"sessions_by_hash":                   sessionsByHashSQL,
	"inspection":                         inspectionSQL,
	"inspections":                        inspectionsSQL,
	"forget_inspections":                 forgetInspectionsSQL,
	"forget_attempts":                    forgetAttemptsSQL,
	"forget_audit":                       forgetAuditSQL,
	"forget_bodies":                      forgetBodiesSQL,
	"forget_dead_letters":                forgetDeadLettersSQL,
	"forget_event":                       forgetEventSQL,
	"forget_events":                      forgottenEventsSQL,
	"forget_health":                      forgetHealthSQL,
	"forget_ordering_key":                forgetOrderingKeySQL,
	"forget_replay_jobs":                 forgetReplayJobsSQL,
	"ordering_keys":                      orderingKeysSQL,
	"replay_runs":                        replayRunsSQL,
	"trim_inspections":                   trimInspectionsSQL,
	"ended_since":                        endedSinceSQL,
	"endpoint_states":                    endpointStatesSQL,
	"health_inputs":                      healthInputsSQL,
	"key_blocked":                        keyBlockedSQL,
	"keys_by_hash":                       keysByHashSQL,
	"keys_of_account":                    keysOfAccountSQL,
	"last_health":                        lastHealthSQL,
	"lease":                              two(bulk{leaseSQL, leaseTail, 3}),
	"move":                               moveSQL,
	"newest_event":                       newestEventSQL,
	"next_sequence":                      nextSequenceSQL,
	"release_head":                       releaseHeadSQL,
	"ordered_keys":                       orderedKeysSQL,
	"orphaned":                           orphanedSQL,
	"pause":                              pauseSQL,
	"public_keys":                        publicKeysSQL,
	"public_keys_of_endpoint":            publicKeysOfEndpointSQL,
	"recorded":                           recordedSQL,
	"release":                            releaseSQL,
	"replay_chunk":                       moveReplayJobSQL,
	"replay_insert":                      insertReplayOfJobSQL,
	"replay_job":                         replayJobSQL,
	"replay_jobs_of_account":             replayJobsOfAccountSQL,
	"replay_released":                    keyReleasedSQL,
	"replays_pending":                    replaysPendingSQL,
	"resolution":                         resolutionSQL,
	"encrypted_values":                   encryptedValuesSQL,
	"roll_up":                            rollUpSQL,
	"rollup":                             rollupSQL,
	"rollup_types":                       rollupTypesSQL,
	"rollups":                            rollupsSQL,
	"secrets":                            secretsSQL,
	"take_deltas":                        takeDeltasSQL,
	"sequences":                          two(bulk{sequencesSQL, ")", 1}),
	"health_history":                     healthHistorySQL,
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

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	names := slices.Sorted(maps.Keys(statements))
	for _, name := range names {
		goldenPlan(t, name, plan(t, s.reads, statements[name]))
	}
	files, err := os.ReadDir(filepath.Join("testdata", "plans"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, file := range files {
		kept = append(kept, strings.TrimSuffix(file.Name(), ".txt"))
	}
	if diff := cmp.Diff(names, kept); diff != "" {
		t.Errorf("files of plans (-want +got):\n%s", diff)
	}
}

// goldenPlan fails the test unless the file of that name holds the plan. With
// -update it writes the file.
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
