package storetest

import (
	"context"
	"encoding/binary"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Reading is a call that reads one page of the rows of [Crowd].
type Reading struct {
	Verb string // the name of the verb
	Of   string // what the call asks for
	Read func(context.Context) (rows int, err error)
}

// Most is the account and the endpoint of most rows of [Crowd], few those of few rows.
var (
	Most, few = [16]byte{15: 0x11}, [16]byte{15: 0x12}
	failing   = postrider.EndpointID{15: 0x13}
)

// Pages says how pages of the rows of [Crowd] are read.
type Pages struct {
	Base time.Time // as Crowd got it
	Size int       // number of items
}

// crowd has the calls.
type crowd struct {
	store.Store

	base time.Time
	size int     // of the pages
	ids  idRange // of the rows that addPages lists
	list []Reading
}

// Readings returns calls of all verbs that list rows. They select many rows, few rows and none,
// in each order, from the middle on, and of a span of time.
func Readings(t *testing.T, s store.Store, db sqlstore.Database, p Pages) []Reading {
	t.Helper()
	c := &crowd{Store: s, base: p.Base, size: p.Size}
	c.addEvents()
	c.addDeliveries()
	c.addDeadLetters()
	c.addOthers()
	c.addStatements(t, db)
	return c.list
}

// crowdID returns the id of a row of Crowd.
func crowdID[I ~[16]byte](base time.Time, kind, i int) (id I) {
	binary.BigEndian.PutUint64(id[:8], uint64(base.UnixMilli()+int64(i))<<16|uint64(0x7000+kind))
	binary.BigEndian.PutUint64(id[8:], 8<<60|uint64(i))
	return id
}

// shape is how a page is cut out of a list.
type shape struct {
	name string
	store.Span
	store.Paging
}

// idRange has the ids of a kind, from 1 to last.
type idRange struct{ kind, last int }

// addPages adds a call of a verb for each filter and shape. The rows have the ids c.ids.
func addPages[Q, T any](c *crowd, verb string, call func(context.Context, Q) (store.Page[T], error), filters map[string]func(shape) Q) {
	ids := c.ids
	middle, first := crowdID[[16]byte](c.base, ids.kind, ids.last/2), crowdID[[16]byte](c.base, ids.kind, ids.last/4)
	from, to := c.base.Add(time.Duration(ids.last/8)*time.Millisecond), c.base.Add(time.Duration(ids.last/2)*time.Millisecond)
	for of, filter := range filters {
		for _, s := range []shape{
			{},
			{name: ", oldest first", Paging: store.Paging{OldestFirst: true}},
			{name: ", from the middle", Paging: store.Paging{Cursor: store.EncodeCursor(string(middle[:]))}},
			{
				name: ", of a span, oldest first, from the middle", Span: store.Span{From: from, To: to},
				Paging: store.Paging{OldestFirst: true, Cursor: store.EncodeCursor(string(first[:]))},
			},
		} {
			s.Limit = c.size
			q := filter(s)
			addList(c, verb, items(call), map[string]Q{of + s.name: q})
		}
	}
}

func (c *crowd) addEvents() {
	filters := map[string]func(shape) store.EventQuery{}
	for of, q := range map[string]store.EventQuery{
		"all": {}, "an account": {Account: Most}, "a small account": {Account: few}, "no account": {Account: postrider.AccountID{9}},
		"a type": {Type: "common"}, "a type of an account": {Type: "common", Account: Most},
		"a rare type": {Type: "rare"}, "a rare type of an account": {Type: "rare", Account: Most},
		"an ordering key": {Account: Most, OrderingKey: "o"}, "a rare type of an ordering key": {Account: Most, OrderingKey: "o", Type: "rare"},
		"an idempotency key": {Account: Most, IdempotencyKey: "k33"}, "an id": {ID: crowdID[postrider.EventID](c.base, 3, 33)},
	} {
		filters[of] = func(s shape) store.EventQuery {
			q.Span, q.Paging = s.Span, s.Paging
			return q
		}
	}
	c.ids = idRange{3, 40_000}
	addPages(c, "Events", c.Events, filters)
}

func (c *crowd) addDeliveries() {
	wheres := map[string]store.DeliveryQuery{
		"all": {}, "an account": {Account: Most}, "a small account": {Account: few}, "an endpoint": {Account: Most, Endpoint: Most},
		"a small endpoint": {Account: few, Endpoint: few}, "a failing endpoint": {Account: Most, Endpoint: failing},
		"an event": {Event: crowdID[postrider.EventID](c.base, 3, 33)}, "a job": {ReplayJob: Most},
		"a rare type": {EventType: "rare"}, "a rare type of an account": {EventType: "rare", Account: Most},
		"a rare type of an endpoint": {EventType: "rare", Endpoint: Most},
	}
	filters := map[string]func(shape) store.DeliveryQuery{}
	for _, status := range []postrider.Status{
		"", postrider.Pending, postrider.Delivered, postrider.Dead, postrider.Skipped,
	} {
		for of, q := range wheres {
			q.Status = status
			q.Last = status == postrider.Skipped
			filters[strings.TrimSpace(string(status)+" deliveries")+" of "+of] = func(s shape) store.DeliveryQuery {
				q.Span, q.Paging = s.Span, s.Paging
				return q
			}
		}
	}
	c.ids = idRange{5, 40_000}
	addPages(c, "Deliveries", c.Deliveries, filters)
}

func (c *crowd) addDeadLetters() {
	filters := map[string]func(shape) store.DeadLetterQuery{}
	for of, q := range map[string]store.DeadLetterQuery{
		"all": {}, "an account": {Account: Most}, "a small account": {Account: few}, "an endpoint": {Account: Most, Endpoint: Most},
		"a small endpoint": {Account: few, Endpoint: few}, "a reason": {Reason: "exhausted"}, "a rare reason": {Reason: "gone"},
		"a rare reason of an account":  {Account: Most, Reason: "gone"},
		"a rare reason of an endpoint": {Account: Most, Endpoint: Most, Reason: "gone"},
		"a rare type":                  {EventType: "rare"}, "a rare type of an account": {Account: Most, EventType: "rare"},
		"an event": {Event: crowdID[postrider.EventID](c.base, 3, 33)},
	} {
		for resolved, with := range map[bool]string{false: "unresolved of ", true: "of "} {
			q := q
			q.Resolved = resolved
			filters[with+of] = func(s shape) store.DeadLetterQuery {
				q.Span, q.Paging = s.Span, s.Paging
				return q
			}
		}
	}
	c.ids = idRange{6, 20_000}
	addPages(c, "DeadLetters", c.DeadLetters, filters)
}

// addList adds a call of a verb for each query.
func addList[Q, T any](c *crowd, verb string, call func(context.Context, Q) ([]T, error), queries map[string]Q) {
	for of, q := range queries {
		c.list = append(c.list, Reading{verb, of, func(ctx context.Context) (int, error) {
			items, err := call(ctx, q)
			return len(items), err
		}})
	}
}

// items returns the items of the pages of a verb.
func items[Q, T any](verb func(context.Context, Q) (store.Page[T], error)) func(context.Context, Q) ([]T, error) {
	return func(ctx context.Context, q Q) ([]T, error) {
		page, err := verb(ctx, q)
		return page.Items, err
	}
}

func (c *crowd) addOthers() {
	addList(c, "Attempts", items(c.Attempts), map[string]store.AttemptQuery{
		"a delivery": {Account: Most, Delivery: crowdID[postrider.DeliveryID](c.base, 5, 33)},
		"an event":   {Account: Most, Event: crowdID[postrider.EventID](c.base, 3, 33)},
	})
	addList(c, "OrderedKeys", items(c.OrderedKeys), map[string]store.OrderedKeyQuery{
		"an endpoint": {Account: Most, Endpoint: Most}, "a small endpoint": {Account: few, Endpoint: few},
	})
	addList(c, "DeadLetterGroups", items(c.DeadLetterGroups), map[string]store.DeadLetterGroupQuery{
		"all": {}, "an account": {Account: Most}, "an endpoint": {Account: Most, Endpoint: Most}, "a small account": {Account: few},
	})
	addList(c, "Find", c.Find, map[string]store.FindQuery{
		"a name": {Text: "e44", Limit: c.size}, "a name of an account": {Text: "e44", Limit: c.size, Account: Most},
		"many names": {Text: "e", Limit: c.size}, "an ordering key": {Text: "o44", Limit: c.size},
		"an idempotency key": {Text: "k33", Limit: c.size},
		"a secret":           {Text: "x", Secret: crowdID[postrider.SecretID](c.base, 7, 33), Limit: c.size},
	})
	day := store.RollupQuery{Account: Most, From: c.base.Add(-24 * time.Hour), To: c.base}
	hours, rare := day, day
	hours.Step, rare.Type = store.Hours, "rare"
	addList(c, "Rollups", c.Rollups, map[string]store.RollupQuery{"an account": day, "hours": hours, "a rare type": rare})
	c.addEndpoints()
	c.addUpkeep()
}

// addEndpoints adds the calls about a page of endpoints.
func (c *crowd) addEndpoints() {
	page := []postrider.EndpointID{Most, few, failing}
	for i := 4; len(page) < c.size; i++ {
		page = append(page, crowdID[postrider.EndpointID](c.base, 2, i))
	}
	pages := map[string][]postrider.EndpointID{"a page": page}
	addList(c, "EndpointStates", func(ctx context.Context, ids []postrider.EndpointID) ([]store.EndpointState, error) {
		return c.EndpointStates(ctx, ids...)
	}, pages)
	addList(c, "LastFailures", func(ctx context.Context, ids []postrider.EndpointID) ([]postrider.Attempt, error) {
		return c.LastFailures(ctx, ids...)
	}, pages)
	addList(c, "Backlog", func(ctx context.Context, q store.BacklogQuery) ([]store.Backlog, error) {
		b, err := c.Backlog(ctx, q)
		return []store.Backlog{b}, err
	}, map[string]store.BacklogQuery{
		"all": {}, "an account": {Account: Most}, "an endpoint": {Account: Most, Endpoint: Most}, "a small account": {Account: few},
	})
}

// addUpkeep adds the calls of the dispatcher and the janitor.
func (c *crowd) addUpkeep() {
	addList(c, "Due", c.Due, map[string]store.Due{
		"all": {Max: c.size}, "newer": {Max: c.size, NewerThan: crowdID[postrider.DeliveryID](c.base, 4, 24_000)},
	})
	addList(c, "EndpointBacklogs", c.EndpointBacklogs, map[string]store.BacklogsQuery{
		"all": {Max: c.size, Count: 1000, Default: 1000}, "single limits": {Max: c.size, Count: 1000},
	})
	addList(c, "HealthInputs", func(ctx context.Context, after postrider.EndpointID) ([]postrider.HealthInput, error) {
		return c.HealthInputs(ctx, after, c.size)
	}, map[string]postrider.EndpointID{"all": {}})
	addList(c, "EncryptedValues", func(ctx context.Context, after store.EncryptedID) ([]store.EncryptedValue, error) {
		return c.EncryptedValues(ctx, after, c.size)
	}, map[string]store.EncryptedID{"all": {}, "from the middle": {Endpoint: crowdID[postrider.EndpointID](c.base, 2, 1000)}})
	old := map[string]store.OldRows{}
	for _, kind := range []store.Kind{store.OldEvents, store.OldAttempts, store.OldBodies, store.OldKeys} {
		old[string(kind)] = store.OldRows{Kind: kind, Account: Most, Before: c.base.Add(time.Hour), Limit: c.size}
		old[string(kind)+" of a small account"] = store.OldRows{Kind: kind, Account: few, Before: c.base.Add(time.Hour), Limit: c.size}
	}
	addList(c, "OldRows", func(ctx context.Context, q store.OldRows) ([]store.OldRow, error) {
		rows, _, err := c.OldRows(ctx, q)
		return rows, err
	}, old)
}

var where = regexp.MustCompile(`(?s)where.*`)

// addStatements adds the lists of package sqlstore, for the account and endpoint of most rows and
// of few rows.
func (c *crowd) addStatements(t *testing.T, db sqlstore.Database) {
	t.Helper()
	for _, s := range slices.Clone(Statements(t, db)) {
		if !s.List {
			continue
		}
		queries := map[string]sqlstore.Query{}
		for of, id := range map[string][16]byte{"": Most, " of few": few} {
			args := maps.Clone(s.Args)
			for name, arg := range args {
				if plain, ok := sqlstore.Plain(arg).([16]byte); ok && plain == askedID {
					args[name] = id
				} else if name == "limit" {
					args[name] = c.size + 1
				}
			}
			queries[strings.Join(strings.Fields(where.FindString(s.SQL)), " ")+of] = sqlstore.Query{SQL: s.SQL, Args: args}
		}
		addList(c, s.Verb, func(ctx context.Context, q sqlstore.Query) (rows []struct{}, err error) {
			err = db.Query(ctx, q, func(r sqlstore.Rows) error {
				for rows = nil; r.Next(); rows = append(rows, struct{}{}) {
				}
				return nil
			})
			return rows, err
		}, queries)
	}
}

// thrownAway is the greatest number of rows that a statement may read for a page beside those
// that it returns.
const thrownAway = 250

// Excess is a kind of reading that may throw away more rows than others.
type Excess struct {
	Verbs, Of string // regular expressions
	Most      int    // rows
	Why       string
}

// mayThrowAway has the readings that may throw away more rows, in every store. The first one that
// matches counts.
var mayThrowAway = []Excess{
	{
		"Events|Deliveries|DeadLetters", "rare type|rare reason of an endpoint", 75_000,
		"a filter without an index passes over up to 10,000 rows of each table",
	},
	{
		"DeadLetters", "^unresolved", 30_000,
		"passes over up to 10,000 resolved ones: the index of the unresolved ones has another order",
	},
	{
		"Deliveries", "^(pending )?deliveries of a small account", 11_000,
		"passes over up to 10,000 of other accounts: an index of queue by account would cost each delivery",
	},
	{
		"Deliveries", "^(pending )?deliveries of an? (failing |small )?endpoint", 11_000,
		"sorts up to 1,000 pending ones, or passes over up to 10,000: an index by endpoint and id would cost each delivery",
	},
	{"Deliveries", "of a failing endpoint", 10_000, "passes over up to 10,000 attempts that ended no delivery"},
	{
		"Backlog|DeadLetterGroups|EndpointStates|EndpointBacklogs|QuotaUse|Rollups|HealthInputs|LastFailures|Find", "", 40_000,
		"counts, adds up or searches rows, as many as its contract says",
	},
	{"Due", "newer", 15_000, "reads the deliveries that came since the last call"},
	{
		"Endpoints|ReplayJobs", "status = @status|@circuit|@failing|@health", 12_000,
		"passes over all endpoints, or the endpoints or jobs of the account: they are few in comparison with events",
	},
}

// RowsRead measures the readings. The function measure runs a reading, and returns how many rows
// its worst statement threw away, and that statement.
func RowsRead(t *testing.T, readings []Reading, may []Excess, measure func(*testing.T, Reading) (rows int, statement string)) {
	t.Helper()
	may = append(slices.Clone(mayThrowAway), may...)
	if len(may) > 10 {
		t.Errorf("%d kinds of readings may throw away rows, more than 10", len(may))
	}
	worst := make([]int, len(may))
	for _, r := range readings {
		rows, statement := measure(t, r)
		i := slices.IndexFunc(may, func(e Excess) bool {
			return regexp.MustCompile("^("+e.Verbs+")$").MatchString(r.Verb) && regexp.MustCompile(e.Of).MatchString(r.Of)
		})
		if i < 0 && rows > thrownAway || i >= 0 && rows > may[i].Most {
			t.Errorf("%s, %s: %d rows are thrown away\n%s", r.Verb, r.Of, rows, statement)
		}
		if i >= 0 {
			worst[i] = max(worst[i], rows)
		}
	}
	for i, e := range may {
		if t.Logf("%s, %q throw away up to %d rows: %s", e.Verbs, e.Of, worst[i], e.Why); worst[i] <= thrownAway {
			t.Errorf("%s, %q is no exception any more: %d rows", e.Verbs, e.Of, worst[i])
		}
	}
}
