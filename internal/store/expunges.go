package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Expunges removes events, endpoints and accounts with all that is stored about them. The API
// asks for it; the janitor does it.
type Expunges interface {
	// PutExpunge stores a new expunge. Repeated with the same id, it changes nothing.
	PutExpunge(ctx context.Context, e postrider.Expunge) error

	// Expunges lists expunges, newest first.
	Expunges(ctx context.Context, q ExpungeQuery) (Page[postrider.Expunge], error)

	// ExpungeRows removes up to r.Limit rows of what an expunge is about, adds them to its
	// counts, and returns it.
	//
	// Of an event it removes the event, its idempotency key, its attempts with their heads
	// and bodies, its requests at inspectors, its fan-out job and its resolved dead letters.
	// Of an endpoint it removes the attempts, dead letters, requests, health, secrets,
	// circuit, pauses and statistics. Its row stays, deleted, without URL, texts and policy.
	// Of an account it removes all that of its events and endpoints, and its sessions,
	// replay jobs, ordering keys and statistics. Its row and its API keys stay, without names.
	// Records that were restored from the archive go as well. The archive itself stays; [ArchiveDay]
	// counts the rows that a part has.
	// Audit entries stay, and so does what belongs to others.
	//
	// Pending deliveries stay, and the unresolved dead letters of an event: the caller ends
	// them before, so that their ordering keys go on. An endpoint or account must be deleted
	// before.
	// When nothing was found for as long as r.Settled, it ends the expunge of an account. That of
	// an event or endpoint goes on in the archive, and ends when NoteExpunge has said that it is
	// done there. Of an expunge that has ended it removes nothing.
	ExpungeRows(ctx context.Context, r ExpungeRows) (postrider.Expunge, error)

	// Scrub removes what deleted rows have left in the store's own files, before an expunge ends.
	// It is postrider.ErrBusy while a reader holds them. A store whose files are another
	// program's does nothing.
	Scrub(ctx context.Context) error

	// NoteExpunge stores e.Archive: how far an expunge has got in the archive. It changes nothing
	// if the expunge has found rows since e.EmptySince, or has ended.
	NoteExpunge(ctx context.Context, e postrider.Expunge) error

	// ReplaceArchivePart records an object in place of another one that has more records, and adds
	// their number to the count of an expunge, in one step; see [ArchiveDay].Replace.
	ReplaceArchivePart(ctx context.Context, r ReplaceArchivePart) error
}

// ReplaceArchivePart asks for another record of a part. Both have the same Kind, Day, Number,
// After and Last.
type ReplaceArchivePart struct {
	Part    ArchivePart         // as it is recorded
	With    ArchivePart         // in its place; without an Object: no record is left, and the part is forgotten
	Fewer   int64               // records that With has not
	Expunge postrider.ExpungeID // whose count grows by that; zero: none
}

// ExpungeQuery filters expunges; a zero field does not filter.
type ExpungeQuery struct {
	ID      postrider.ExpungeID
	Running bool // only those that have not ended
	Paging
}

// ExpungeRows asks for the removal of rows.
type ExpungeRows struct {
	ID      postrider.ExpungeID
	Limit   int
	Settled time.Duration // see [postrider.ExpungeSettled]
}

// ExpungeStep names rows that an expunge removes, in the tables of the durable stores.
type ExpungeStep struct {
	Table string
	Key   string // its columns, with commas
	Where string // with the parameters @object and @name: the id of what is removed, and its text
	Count func(*postrider.ExpungeCounts) *int
}

func letters(c *postrider.ExpungeCounts) *int { return &c.DeadLetters }

func others(c *postrider.ExpungeCounts) *int { return &c.Other }

// ExpungePlan is how a durable store removes what an expunge is about, in this order. Each step is
// done when it finds nothing, and the steps after it follow.
type ExpungePlan struct {
	Object   [16]byte // the value of @object
	Name     string   // its text: the value of @name
	Attempts string   // condition of the attempts, whose heads and bodies go with them
	Events   string   // condition of the events, whose keys go with them; empty: none
	Steps    []ExpungeStep
	Blank    []string // statements that remove texts of rows that stay; each changes only rows that have some
	Waits    string   // condition for exists: the caller has something to end before
}

// blankEndpointsSQL removes the texts of deleted endpoints. The policy is that of a new one.
const blankEndpointsSQL = `
	update endpoints
	set url = case kind when 'http' then '` + postrider.ExpungedURL + `' else '' end,
		uid = null, description = '', status_reason = '', event_types = @no_types, policy = @policy, credentials = null
	where status = 'deleted' and (url not in ('', '` + postrider.ExpungedURL + `') or uid is not null or description <> '' or event_types <> @no_types) and `

// PlanExpunge returns the plan of an expunge.
func PlanExpunge(e postrider.Expunge) ExpungePlan {
	switch {
	case !e.Event.IsZero():
		return ExpungePlan{
			Object: e.Event, Name: e.Event.String(), Attempts: "event = @object", Events: "id = @object",
			Steps: []ExpungeStep{
				{"dead_letters", "delivery", "event = @object and resolved_at is not null", letters},
				{"inspections", "id", "event = @object", others},
				{"fanouts", "event", "event = @object", others},
				{"restored_records", "id, number, kind", "event = @object", others},
			},
			Waits: `select 1 from queue where event = @object
				union all select 1 from dead_letters where event = @object and resolved_at is null`,
		}
	case !e.Endpoint.IsZero():
		return ExpungePlan{
			Object: e.Endpoint, Name: e.Endpoint.String(), Attempts: "endpoint = @object",
			Steps: append(
				ofEndpoints("= @object"), ExpungeStep{"dead_letters", "delivery", "endpoint = @object", letters},
				ExpungeStep{"notices", "id", "object = @name", others},
				ExpungeStep{"restored_records", "id, number, kind", "endpoint = @object", others},
			),
			Blank: []string{blankEndpointsSQL + "id = @object"},
			Waits: `select 1 from queue where endpoint = @object union all select 1 from endpoints where id = @object and status <> 'deleted'`,
		}
	}
	return ExpungePlan{
		Object: e.Account, Name: e.Account.String(), Attempts: "account = @object", Events: "account = @object",
		Steps: append([]ExpungeStep{
			{"dead_letters", "delivery", "account = @object", letters},
			{"fanouts", "event", "account = @object", others},
			{"notices", "id", "account = @object", others},
			{"notice_destinations", "id", "account = @object", others},
			{"quotas", "account", "account = @object", others},
			{"quota_use", "account", "account = @object", others},
			{"restored_records", "id, number, kind", "account = @object", others},
			{"sessions", "id", "account = @object", others},
			{"replay_jobs", "id", "account = @object", others},
			{"search_terms", "term, id", "account = @object", others},
			{"rollups", "scope, type, step, at", "scope = @object", others},
		}, ofEndpoints("in (select id from endpoints where account = @object)")...),
		Blank: []string{
			blankEndpointsSQL + "account = @object",
			`update api_keys set name = '' where account = @object and name <> ''`,
			`update accounts set name = '', uid = null where id = @object and deleted_at is not null and (name <> '' or uid is not null)`,
		},
		Waits: `select 1 from queue where endpoint in (select id from endpoints where account = @object)
			union all select 1 from endpoints where account = @object and status <> 'deleted'
			union all select 1 from accounts where id = @object and deleted_at is null`,
	}
}

// ofEndpoints returns the steps of the tables that have rows of endpoints.
func ofEndpoints(are string) []ExpungeStep {
	return []ExpungeStep{
		{"inspections", "id", "endpoint " + are, others},
		{"endpoint_health", "endpoint, number", "endpoint " + are, others},
		{"endpoint_secrets", "id", "endpoint " + are, others},
		{"circuits", "endpoint", "endpoint " + are, others},
		{"paused_keys", "endpoint, ordering_key", "endpoint " + are, others},
		{"search_terms", "term, id", "id " + are, others},
		{"rollups", "scope, type, step, at", "scope " + are, others},
	}
}
