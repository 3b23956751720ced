package postgres

// This test is inside the package, because the statements are not exported.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/storetest"
	"github.com/postrider/postrider/internal/testkit"
)

// oneEndpoint returns the arguments of deliveriesOfEndpointSQL, with a range of all partitions.
func oneEndpoint() pgx.NamedArgs {
	return pgx.NamedArgs{
		"from": floor(time.Time{}, 0), "before": floor(time.Time{}, math.MaxUint64), "id": nil, "event": nil, "account": nil,
		"endpoint": nil, "type": nil, "status": nil, "job": nil, "few": 1, "limit": 1,
	}
}

// planning returns a connection to a seeded database, with the settings of the pool.
func planning(t *testing.T) *pgx.Conn {
	t.Helper()
	config, err := parse(seeded(t))
	if err != nil {
		t.Fatal(err)
	}
	setParams(config.ConnConfig.RuntimeParams)
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func TestPlans(t *testing.T) {
	t.Parallel()
	conn := planning(t)

	noPositions := pgx.NamedArgs{"endpoints": uuids{}, "keys": []string{}, "accounts": uuids{}, "deliveries": uuids{}, "sequences": []int64{}}
	for name, statement := range map[string]struct {
		sql  string
		args pgx.NamedArgs
	}{
		"publish_events":                {insertEventsSQL, (&eventColumns{}).args()},
		"publish_terms":                 {insertTermsSQL, (&termColumns{}).args()},
		"publish_queue":                 {insertQueueSQL, (&queueColumns{}).args()},
		"publish_keys":                  {insertKeysSQL, keyColumns(nil, nil)},
		"publish_key_owners":            {keyOwnersSQL, keyColumns(nil, nil)},
		"publish_rows":                  {insertRowsSQL, rowColumns(nil)},
		"publish_recorded_rows":         {recordedRowsSQL, rowColumns(nil)},
		"publish_drop_rows":             {dropRowsSQL, rowColumns(nil)},
		"publish_stored":                {storedSQL, pgx.NamedArgs{"ids": uuids{}, "accounts": uuids{}}},
		"claim":                         {claimSQL, claimColumns(store.Claim{})},
		"claim_lanes":                   {lanesSQL, claimColumns(store.Claim{})},
		"claim_again":                   {unclaimSQL, claimColumns(store.Claim{})},
		"settle":                        {settleSQL, (&settlementColumns{}).args()},
		"settle_dead":                   {settleDeadSQL, (&settlementColumns{}).args()},
		"settle_bodies":                 {insertBodiesSQL, (&bodyColumns{}).args()},
		"continue":                      {continueSQL, continueArgs(&postrider.Claimed{Event: &postrider.Event{}}, &postrider.Attempt{})},
		"release":                       {releaseSQL, pgx.NamedArgs{"ids": uuids{}, "tokens": []int64{}}},
		"due":                           {dueSQL, pgx.NamedArgs{"after": nil, "max": 1}},
		"due_counted":                   {dueCountedSQL, pgx.NamedArgs{"after": nil, "max": 1, "count": 1}},
		"due_newer":                     {dueNewerSQL, pgx.NamedArgs{"after": nil, "max": 1, "newer": nil}},
		"expire":                        {expireSQL, pgx.NamedArgs{"limit": 1}},
		"cancel_deleted":                {cancelDeletedSQL, pgx.NamedArgs{"limit": 1}},
		"claim_fanouts":                 {claimFanOutsSQL, pgx.NamedArgs{"max": 1, "except": uuids{}, "token": 1, "lease": 1}},
		"replay_source":                 {replaySourceSQL, pgx.NamedArgs{"id": nil, "account": nil}},
		"settle_seen_once":              {settledSQL, (&settlementColumns{}).args()},
		"publish_ordered":               {insertOrderedSQL, (&orderedColumns{}).args()},
		"order_lock":                    {lockOrderingKeysSQL, pgx.NamedArgs{"ids": uuids{}}},
		"order_find":                    {orderedSQL, pgx.NamedArgs{"ids": uuids{}, "tokens": []*int64{}}},
		"order_pause":                   {pauseKeysSQL, noPositions},
		"order_next":                    {releaseHeadsSQL, noPositions},
		"order_resume":                  {resumeSQL, pgx.NamedArgs{"id": nil, "account": nil}},
		"expire_find":                   {expireOrdered.find, pgx.NamedArgs{"limit": 1}},
		"expire_end":                    {expireOrdered.end, pgx.NamedArgs{"ids": uuids{}}},
		"cancel_find":                   {cancelOrdered.find, pgx.NamedArgs{"limit": 1}},
		"cancel_end":                    {cancelOrdered.end, pgx.NamedArgs{"ids": uuids{}}},
		"deliveries_of_endpoint":        {deliveriesOfEndpointSQL, oneEndpoint()},
		"deliveries_of_endpoint_oldest": {oldestFirst.Replace(deliveriesOfEndpointSQL), oneEndpoint()},
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, statement.sql, statement.args)) })
	}
	for i, name := range backlogs {
		q := ofVerb(t, "Backlog")[i]
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, q.statement, q.args)) })
	}
}

// backlogs are the statements of Backlog, in the order of their calls in package storetest.
var backlogs = []string{"backlog_all", "backlog_account", "backlog_endpoint"}

// ofVerb returns the statements of a verb of package sqlstore.
func ofVerb(t *testing.T, verb string) (statements []query) {
	t.Helper()
	for _, s := range storetest.Statements(t, cold{opened(t)}) {
		if s.Verb == verb {
			statements = append(statements, query{s.SQL, arguments(s.Args)})
		}
	}
	return statements
}

// opened returns a store with the rows of seedSQL.
func opened(t *testing.T) *Store { return openedAt(t, seeded(t)) }

// openedAt returns a store in the database.
func openedAt(t *testing.T, dsn string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, Options{})
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

// If one endpoint has all pending deliveries, the statistics say that a condition on the endpoint
// saves nothing. The statements for another endpoint must still not read the whole queue.
func TestPlansOfOneBacklog(t *testing.T) {
	t.Parallel()
	conn := planning(t)
	for _, statement := range []string{`update queue set endpoint = id(1, 'endpoint')`, `vacuum (full, analyze) queue`} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for name, statement := range map[string]query{
		"backlog_endpoint_beside_one":       ofVerb(t, "Backlog")[2],
		"backlog_account_beside_one":        ofVerb(t, "Backlog")[1],
		"deliveries_of_endpoint_beside_one": {deliveriesOfEndpointSQL, oneEndpoint()},
		"endpoint_states_beside_one":        ofVerb(t, "EndpointStates")[0],
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, statement.statement, statement.args)) })
	}
}

// If no delivery is ordered, the statistics say that an index of ordered rows costs nothing. The
// index can get many rows before the next statistics, and keeps dead rows while a transaction is
// open. So the plans must be the same as those of TestPlans.
func TestPromise5PlansWhileNothingIsOrdered(t *testing.T) {
	t.Parallel()
	conn := planning(t)
	for _, statement := range []string{`delete from queue where ordering_key is not null`, `vacuum (analyze) queue`} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for name, statement := range map[string]query{
		"publish_ordered": {insertOrderedSQL, (&orderedColumns{}).args()},
		"order_lock":      {lockOrderingKeysSQL, pgx.NamedArgs{"ids": uuids{}}},
		"order_find":      {orderedSQL, pgx.NamedArgs{"ids": uuids{}, "tokens": []*int64{}}},
		"order_next":      {releaseHeadsSQL, pgx.NamedArgs{"endpoints": uuids{}, "keys": []string{}}},
		"cancel_find":     {cancelOrdered.find, pgx.NamedArgs{"limit": 1}},
		"due_newer":       {dueNewerSQL, pgx.NamedArgs{"after": nil, "max": 1, "newer": nil}},
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, statement.statement, statement.args)) })
	}
}

func TestPlansOfRetention(t *testing.T) {
	t.Parallel()
	conn := planning(t)
	args := pgx.NamedArgs{
		"before": time.Time{}, "limit": 1, "from": nil, "below": nil, "key": "", "account": nil,
		"keys": []string{}, "accounts": uuids{}, "lasts": []int64{}, "ids": uuids{}, "after": nil, "number": 0,
	}
	for name, sql := range map[string]string{
		"archived_events": archivedEventsSQL, "archived_attempts": archivedAttemptsSQL, "archived_bodies": archivedBodiesSQL,
		"forget_kept": forgetKeptSQL, "forget_ordering_keys": forgetOrderingKeysSQL,
		"keep_events": keepEventsSQL, "ordering_keys": orderingKeysSQL, "pending_below": pendingBelowSQL,
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, sql, args)) })
	}
	args = pgx.NamedArgs{
		"account": nil, "after": floor(time.Time{}, 0), "before": floor(time.Time{}, math.MaxUint64), "limit": 1, "from": nil, "below": nil,
		"ids": uuids{}, "numbers": []int32{}, "accounts": uuids{}, "keys": []string{},
	}
	for name, sql := range map[string]string{
		"delete_attempts": deleteAttemptsSQL, "delete_bodies": deleteBodiesSQL, "delete_events": deleteEventsSQL, "delete_keys": deleteKeysSQL,
		"only_attempts": onlyAttemptsSQL, "only_bodies": onlyBodiesSQL, "only_events": onlyEventsSQL,
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, sql, args)) })
	}
}

func TestPlansOfQuotas(t *testing.T) {
	t.Parallel()
	conn := planning(t)
	for name, statement := range map[string]query{
		"spend_quotas":      {spendQuotasSQL, spendColumns(nil)},
		"endpoint_backlogs": {endpointBacklogsSQL, pgx.NamedArgs{"after": nil, "max": 1, "default": 1, "count": 1}},
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, statement.statement, statement.args)) })
	}
}

func TestPlansOfReplays(t *testing.T) {
	t.Parallel()
	conn := planning(t)
	args := pgx.NamedArgs{
		"matches": uuids{}, "events": uuids{}, "endpoints": uuids{}, "ids": uuids{}, "expiries": numbers{}, "ordered": uuids{},
		"pauses": column[pgtype.Bool]{}, "job": nil, "by": "", "note": "", "max": 1, "token": 1, "lease": 1,
	}
	for name, sql := range map[string]string{
		"replay_lock_keys": lockReplayKeysSQL, "replay_lock": lockDeadLettersSQL,
		"replay_matches": replayMatchesSQL, "replay_discard": discardMatchesSQL, "replay_release": releaseLowestSQL,
		"replay_defer": deferHeadsSQL,
	} {
		t.Run(name, func(t *testing.T) { checkPlan(t, name, explainGeneric(t, conn, sql, args)) })
	}
}

func TestPlansOfLists(t *testing.T) {
	t.Parallel()
	dsn := seeded(t)
	conn, err := pgx.Connect(t.Context(), dsn) // a list has the server's own settings
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())

	today := postrider.MakeID[[16]byte](time.Now(), [10]byte{}) // an id in an existing partition
	account, endpoint, event := postrider.AccountID(today), postrider.EndpointID(today), postrider.EventID(today)
	from, before, _ := within[postrider.DeliveryID](store.Span{}, store.Paging{})
	deliveries := func(filter pgx.NamedArgs) pgx.NamedArgs {
		args := pgx.NamedArgs{
			"from": from, "before": before, "limit": 51, "id": nil, "event": nil, "account": nil, "endpoint": nil, "type": nil, "status": nil,
			"delivery": nil, "after": 1, "resolved": false,
			"reason": nil, "key": nil, "scope": uuid(account), "step": 1, "session": nil, "action": nil, "object_id": nil, "hash": nil, "code": nil,
			"kind": nil, "live": nil,
			"ordering_key": nil, "secret": nil, "text": nil, "term": nil, "cursor": nil, "job": nil, "last": false, "resolved_from": nil,
			"operator": false, "from_account": uuid(account), "from_endpoint": uuid(endpoint), "to_account": uuid(account),
			"to_endpoint": uuid(endpoint),
		}
		maps.Copy(args, filter)
		return args
	}
	for name, statement := range map[string]query{
		"deliveries":                     {deliveriesSQL, nil},
		"deliveries_by_account":          {deliveriesSQL, pgx.NamedArgs{"account": uuid(account)}},
		"deliveries_by_endpoint":         {deliveriesSQL, pgx.NamedArgs{"endpoint": uuid(endpoint), "status": "delivered"}},
		"deliveries_by_event":            {deliveriesSQL, pgx.NamedArgs{"event": uuid(event)}},
		"deliveries_skipped":             {deliveriesSQL, pgx.NamedArgs{"status": "skipped"}},
		"deliveries_skipped_by_account":  {deliveriesSQL, pgx.NamedArgs{"account": uuid(account), "status": "skipped"}},
		"deliveries_skipped_by_endpoint": {deliveriesSQL, pgx.NamedArgs{"endpoint": uuid(endpoint), "status": "skipped"}},
		"deliveries_by_job":              {deliveriesSQL, pgx.NamedArgs{"job": uuid(event)}},
		"deliveries_last":                {deliveriesSQL, pgx.NamedArgs{"endpoint": uuid(endpoint), "status": "skipped", "last": true}},
		"deliveries_oldest": {
			inOrder(query{statement: deliveriesSQL}, store.Paging{OldestFirst: true}).statement,
			pgx.NamedArgs{"account": uuid(account)},
		},
		"events_of_order":                {eventsSQL, pgx.NamedArgs{"account": uuid(account), "ordering_key": "o"}},
		"events_of_key":                  {eventsSQL, pgx.NamedArgs{"account": uuid(account), "key": "k"}},
		"dead_letters_of_reason":         {deadLettersSQL, pgx.NamedArgs{"reason": "gone"}},
		"dead_letters_of_reason_account": {deadLettersSQL, pgx.NamedArgs{"account": uuid(account), "reason": "gone"}},
		"deliveries_by_id": {deliveriesSQL, pgx.NamedArgs{
			"id": uuid(event), "from": uuid(event),
			"before": uuid(store.NextID(event)),
		}},
		"last_answers":      {lastAnswersSQL, pgx.NamedArgs{"ids": uuids{uuid(event)}}},
		"events_by_account": {eventsSQL, pgx.NamedArgs{"account": uuid(account)}},
		"events_by_id":      {eventsSQL, pgx.NamedArgs{"id": uuid(event)}},
		"dead_letters":      {deadLettersSQL, pgx.NamedArgs{"account": uuid(account)}},
		"ordered_keys":      {orderedKeysSQL, pgx.NamedArgs{"endpoint": uuid(endpoint), "after": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, _ := conn.Query(t.Context(), `explain `+statement.statement, deliveries(statement.args))
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			checkPlan(t, "list_"+name, lines)
		})
	}
}

// tooMany is the number of rows that a statement may sort: two pages.
const tooMany = 500

var (
	// These tables have one row or two, and sources at most a hundred. A partition without rows costs nothing.
	largeScan = regexp.MustCompile(`Seq Scan on (hold\b|portal\b|keyring\b|subscriptions\b|notices_published\b|rollup_positions\b|sources\b|` +
		`\w+ \w+  \(cost=(?:0\.00\.\.0\.00|10000000000\.00\.\.10000000000\.00) )?`)
	sorted = regexp.MustCompile(`Sort  \(cost=\S+ rows=(\d+)`)
)

// maySort and mayScan have the statements, and the verbs of package sqlstore, that may sort more
// rows or walk a whole table: the reason, and how often they run.
var (
	maySort = map[string]string{
		"ClaimDestinations": "most destinations that are due have no notice, and drop out before the sort; every 5 s",
		"LastFailures":      "sorts the endpoints of a page, and at most FailuresLooked attempts of each; when a person opens the list",
		"Find":              "sorts what it found, at most 1,000 rows of each kind; when a person searches",
	}
	mayScan = map[string]string{
		"ExpungeRows":       "some tables have no index of the account, endpoint or event; for each chunk of an expunge, which is rare",
		"RestoredRecords":   "few records are restored, so an endpoint has no index; when a person opens the list",
		"endpoint_backlogs": "stops at the first account with a limit of its own; every 5 s",
		"FoldRollups":       "stops after @limit rows, all of which it deletes; every 10 s",
	}
)

func TestTenStatementsWalkOrSortAtMost(t *testing.T) {
	t.Parallel()
	if n := len(maySort) + len(mayScan); n > 10 {
		t.Errorf("%d statements may walk a table or sort, more than 10", n)
	}
}

// ofHistory is a walk over the history, which no statement may make.
var ofHistory = regexp.MustCompile(`Seq Scan on (attempts|attempt_bodies|events|event_terms)_\d+ \w+  \(cost=[1-9]`)

// breaks returns how a plan breaks the rule for all statements, or an empty text.
func breaks(name, plan string) string {
	for _, scan := range largeScan.FindAllStringSubmatch(plan, -1) {
		if scan[1] == "" && (mayScan[name] == "" || ofHistory.MatchString(plan)) {
			return "walks a whole table"
		}
	}
	for _, sort := range sorted.FindAllStringSubmatch(plan, -1) {
		if n, err := strconv.Atoi(sort[1]); err != nil || n > tooMany && maySort[name] == "" {
			return "sorts " + sort[1] + " rows"
		}
	}
	return ""
}

func TestNoColdStatementWalksAWholeTable(t *testing.T) {
	t.Parallel()
	s := opened(t)
	inTransaction := planning(t)
	inList, err := pgx.Connect(t.Context(), seeded(t)) // a list has the server's own settings
	if err != nil {
		t.Fatal(err)
	}
	defer inList.Close(t.Context())
	for _, statement := range storetest.Statements(t, cold{s}) {
		conn := inTransaction
		if statement.List {
			conn = inList
		}
		rows, _ := conn.Query(t.Context(), `explain `+statement.SQL, arguments(statement.Args))
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", statement.Verb, err)
		}
		plan := strings.Join(lines, "\n")
		if broken := breaks(statement.Verb, plan); broken != "" {
			t.Errorf("%s %s:\n%s\n%s", statement.Verb, broken, statement.SQL, plan)
		}
	}
}

// seeded returns the DSN of a database with the rows of seedSQL. They are inserted once.
func seeded(t *testing.T) string {
	t.Helper()
	dsn, err := testkit.SharedCluster(t).Database(t.Context(), "plans", func(ctx context.Context, dsn string) error {
		if err := Migrate(ctx, dsn); err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		_, err = conn.PgConn().Exec(ctx, seedSQL).ReadAll()
		return errors.Join(err, conn.Close(ctx))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// explainGeneric returns the generic plan, which the sessions of the pool use and which does not
// depend on the arguments.
func explainGeneric(t *testing.T, conn *pgx.Conn, statement string, args pgx.NamedArgs) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	rewritten, values, err := args.RewriteQuery(ctx, conn, statement, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Prepare(ctx, "plan", rewritten); err != nil {
		t.Fatal(err)
	}
	defer conn.Deallocate(ctx, "plan")
	literals := make([]string, len(values))
	for i, value := range values {
		literals[i] = "null"
		if id, ok := value.(pgtype.UUID); ok && id.Valid {
			literals[i] = "'" + id.String() + "'"
		}
	}
	rows, _ := conn.Query(ctx, `explain execute plan (`+strings.Join(literals, ", ")+`)`)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

var (
	day   = regexp.MustCompile(`_2\d{7}`)
	cost  = regexp.MustCompile(`  \(cost=[^)]*\)`)
	bound = regexp.MustCompile(`'\{?[0-9a-f]{8}-[0-9a-f-]{27}\}?'`)
)

// hot has the statements that run for every delivery, with the file in testdata/plans that has
// their plans. So a change of an index shows as a difference.
var hot = map[string]string{
	"publish_events": "publish", "publish_queue": "publish", "publish_keys": "publish", "publish_key_owners": "publish",
	"publish_rows": "publish", "publish_recorded_rows": "publish",
	"publish_stored": "publish", "publish_ordered": "publish", "spend_quotas": "publish",
	"claim": "claim", "claim_lanes": "claim", "claim_again": "claim", "claim_fanouts": "claim", "due": "claim", "due_counted": "claim",
	"due_newer": "claim",
	"settle":    "settle", "settle_dead": "settle", "settle_bodies": "settle", "settle_seen_once": "settle", "continue": "settle",
	"release": "settle", "expire": "settle",
	"order_lock": "order", "order_find": "order", "order_pause": "order", "order_next": "order", "order_resume": "order",
	"backlog_endpoint": "backlog", "backlog_account": "backlog", "backlog_endpoint_beside_one": "backlog",
	"backlog_account_beside_one": "backlog",
}

// goldenFiles protects the files while they are rewritten, because tests run in parallel.
var goldenFiles sync.Mutex

// goldenMajor is the major version whose plans the files have. The rule for all statements
// applies to every version.
const goldenMajor = 15

// checkPlan fails the test if the plan breaks the rule for all statements, or if it is the plan
// of a hot statement and differs from the file. With -update it writes the file.
func checkPlan(t *testing.T, name string, lines []string) {
	t.Helper()
	got := strings.Join(lines, "\n")
	if broken := breaks(name, got); broken != "" {
		t.Errorf("%s:\n%s", broken, got)
	}
	file, ok := hot[name]
	if !ok || testkit.SharedCluster(t).Major() != goldenMajor {
		return
	}
	got = cost.ReplaceAllString(bound.ReplaceAllString(day.ReplaceAllString(got, "_day"), "'…'"), "")
	path := filepath.Join("testdata", "plans", "pg15", file+".txt")
	goldenFiles.Lock()
	defer goldenFiles.Unlock()
	text, err := os.ReadFile(path)
	plans := map[string]string{}
	for section := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		title, plan, _ := strings.Cut(section, "\n")
		plans[title] = plan
	}
	if flag.Lookup("update").Value.String() == "true" {
		plans[name] = got
		var made strings.Builder
		for _, title := range slices.Sorted(maps.Keys(plans)) {
			if hot[title] == file {
				made.WriteString(title + "\n" + plans[title] + "\n\n")
			}
		}
		err = os.WriteFile(path, []byte(made.String()), 0o644)
	}
	if diff := gocmp.Diff(plans[name], got); cmp.Or(err != nil, diff != "") {
		t.Errorf("%s is out of date (-update rewrites it) %v (-want +got):\n%s", path, err, diff)
	}
}
