package apitypes

import "github.com/postrider/postrider"

// ReplayCreate selects deliveries that have ended. All of them are replayed or discarded.
type ReplayCreate struct {
	Action     postrider.ReplayAction `json:"action,omitempty" enum:"replay,discard" doc:"replay: each gets a new delivery. discard: dead letters are resolved, and nothing is sent. Default: replay."`
	Account    string                 `json:"account,omitempty" minLength:"1" doc:"Id or uid of the account. Default: all accounts that the caller sees."`
	Endpoint   string                 `json:"endpoint,omitempty" minLength:"1" doc:"Id of the endpoint. With the account, its uid works too."`
	Event      string                 `json:"event,omitempty" minLength:"1" doc:"Id of the event."`
	EventTypes []string               `json:"event_types,omitempty" nullable:"false" maxItems:"100" doc:"Event types or patterns, as those of an endpoint. Default: every type."`
	Statuses   []postrider.Status     `json:"statuses,omitempty" nullable:"false" maxItems:"4" enum:"delivered,dead,cancelled,skipped" doc:"Statuses to select. dead: the unresolved dead letters. Of the others, the last delivery of an event to an endpoint. What an endpoint has missed is dead, cancelled and skipped. Default: dead."`
	Reason     string                 `json:"reason,omitempty" enum:"exhausted,gone,client_error,aborted_by_receiver,expired,filter_failed,system,endpoint_disabled,backlog_full,endpoint_deleted,cancelled" doc:"Why the deliveries are dead, cancelled or skipped."`
	From       *Time                  `json:"from,omitempty" format:"date-time" doc:"Deliveries that were created at this time or later."`
	To         *Time                  `json:"to,omitempty" format:"date-time" doc:"Deliveries that were created before this time. Default: the time of the request."`
	PerSecond  *int                   `json:"per_second,omitempty" minimum:"1" maximum:"5000" doc:"How many are replayed or discarded in a second, at most. Default: 100."`
	Note       string                 `json:"note,omitempty" doc:"Why this is done. Discarded dead letters keep it."`
}

// Backfill lets the subscription of an endpoint start in the past.
type Backfill struct {
	StartFrom Time   `json:"start_from" format:"date-time" doc:"Events that were published at this time or later. Not later than now."`
	PerSecond *int   `json:"per_second,omitempty" minimum:"1" maximum:"5000" doc:"How many deliveries are made in a second, at most. Default: 100."`
	Note      string `json:"note,omitempty" doc:"Why this is done."`
}

// ReplayCount is a number of deliveries that a replay selects.
type ReplayCount struct {
	Matches   int   `json:"matches" doc:"Deliveries that match, or in a backfill, events. A replay skips those whose data was deleted as bytes_gone, so it may make fewer."`
	Exact     bool  `json:"exact" doc:"False: there are more; the count stops after 10,000 or one second. True: these were all at this moment. A job finds a few more or fewer if deliveries end, or are replayed by others, at the same time."`
	KeptSince *Time `json:"kept_since" format:"date-time" doc:"What was created before this time may be deleted: deliveries, which then do not match, and the data of events, without which deliveries are skipped. Only an archive may have it, and no replay reads that. It follows from how long the account, or else the server, keeps events and attempts; of all accounts, some may keep less. Null: the range of the replay begins later, or it selects only what is kept: one event, or unresolved dead letters, unless all of their range is before this time. Null in lists, and for a discard."`
}

// Replay is a job that replays or discards the deliveries that it selects. The selection is fixed
// when the job is created. It has no delivery that ends later, and none that the job makes.
type Replay struct {
	ID         postrider.ReplayID     `json:"id" example:"rpl_01h455vb4pex5vsknk084sn02q"`
	Action     postrider.ReplayAction `json:"action" enum:"replay,discard,backfill" doc:"backfill: it makes the first deliveries of events that the endpoint wants and did not get. It has no statuses."`
	Status     postrider.ReplayStatus `json:"status" enum:"running,paused,done,cancelled,failed" doc:"running: it goes on by itself. paused: until it is resumed. done: all that it selects was handled; see deliveries for what became of it. cancelled, failed: the rest was not handled."`
	Error      *string                `json:"error" doc:"Why it failed. Null: it did not."`
	Account    *postrider.AccountID   `json:"account" nullable:"true" doc:"Null: all accounts."`
	Endpoint   *postrider.EndpointID  `json:"endpoint" nullable:"true"`
	Event      *postrider.EventID     `json:"event" nullable:"true"`
	EventTypes []string               `json:"event_types" nullable:"false"`
	Statuses   []postrider.Status     `json:"statuses" nullable:"false" enum:"delivered,dead,cancelled,skipped"`
	Reason     *string                `json:"reason"`
	From       *Time                  `json:"from" format:"date-time"`
	To         *Time                  `json:"to" format:"date-time"`
	PerSecond  int                    `json:"per_second"`
	Note       *string                `json:"note"`
	CreatedBy  string                 `json:"created_by" doc:"Name of the API key or the person."`
	CreatedAt  Time                   `json:"created_at" format:"date-time"`
	EndedAt    *Time                  `json:"ended_at" format:"date-time" doc:"Null: it is running or paused."`
	Expected   ReplayCount            `json:"expected" doc:"What it selected when it was created."`
	Position   *Time                  `json:"position" format:"date-time" doc:"All that was created before this time is handled. Null: it has not begun."`
	Matched    int                    `json:"matched" doc:"Deliveries that were looked at so far: handled and skipped."`
	Handled    int                    `json:"handled" doc:"Deliveries that were replayed, or discarded, so far."`
	Skipped    ReplaySkips            `json:"skipped" doc:"Deliveries that could not be replayed, by reason."`
	Deliveries *ReplayDeliveries      `json:"deliveries" doc:"What became of the new deliveries. Null in lists, and for a discard."`
}

// ReplaySkips counts deliveries that a replay has skipped, by reason.
type ReplaySkips struct {
	BytesGone       int `json:"bytes_gone" doc:"The data of their events was deleted."`
	ReplayPending   int `json:"replay_pending" doc:"Another replay of the dead letter is pending."`
	EndpointDeleted int `json:"endpoint_deleted"`
	Resolved        int `json:"resolved" doc:"Somebody else has replayed or discarded the dead letter since."`
}

// ReplayDeliveries counts the deliveries that a replay has made, by status.
type ReplayDeliveries struct {
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
}
