package apitypes

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// Subscription has the fields of an endpoint that say which events it gets.
type Subscription struct {
	EventTypes []string                  `json:"event_types,omitempty" nullable:"false" example:"[\"order.*\"]" doc:"As those of an endpoint."`
	Filter     Optional[json.RawMessage] `json:"filter,omitzero" doc:"As that of an endpoint. Null: all events."`
	Channels   Optional[[]string]        `json:"channels,omitzero" minItems:"1" maxItems:"10" example:"[\"eu\"]" doc:"As those of an endpoint. Null: all events."`
	Changed    Optional[[]string]        `json:"changed,omitzero" minItems:"1" maxItems:"10" example:"[\"$.status\"]" doc:"As that of an endpoint. Null: all events."`
	Condition  Optional[string]          `json:"condition,omitzero" doc:"As that of an endpoint. Null: all events."`
}

// DryRun is a subscription and an event to compare with it. A field of the subscription that is left out
// selects all events.
type DryRun struct {
	Subscription

	Event DryRunEvent `json:"event"`
}

// DryRunEvent has the fields of an event that a subscription is compared with. It is not published.
type DryRunEvent struct {
	Type string          `json:"type" example:"order.created"`
	Data json.RawMessage `json:"data"`
	About
}

// WhatIf is a change of an endpoint's subscription, and the stored events to compare with it. A field of
// the subscription that is left out is as the endpoint has it.
type WhatIf struct {
	Subscription

	Last   *int   `json:"last,omitempty" minimum:"1" maximum:"100000" doc:"How many events to compare, the newest ones. Default: 1000, or 100000 if there is from or to."`
	From   *Time  `json:"from,omitempty" format:"date-time" doc:"Only events that were published at this time or later."`
	To     *Time  `json:"to,omitempty" format:"date-time" doc:"Only events that were published before this time. Default: the time of the request."`
	Type   string `json:"type,omitempty" minLength:"1" doc:"Only events of this type."`
	Cursor string `json:"cursor,omitempty" minLength:"1" maxLength:"512" doc:"The next_cursor of the same request: it goes on with older events."`
}

// WhatIfResult says which events a subscription would have selected.
type WhatIfResult struct {
	Events     int             `json:"events" doc:"Events that were compared, newest first; of the archive, the oldest day first. Test events and events that name their endpoints are left out."`
	Against    string          `json:"against" enum:"deliveries,subscription" doc:"What delivered, new and gone compare with. deliveries: what the endpoint has a delivery of. subscription: what its present subscription selects; so it is for archived events."`
	Oldest     *Time           `json:"oldest" format:"date-time" doc:"When the oldest of them was published. Null: there is none."`
	Matched    int             `json:"matched" doc:"Events that the subscription selects."`
	NotMatched []WhatIfReason  `json:"not_matched" nullable:"false" doc:"The other events, by the first condition that does not hold, most events first."`
	Delivered  int             `json:"delivered" doc:"Events of which the endpoint has a delivery, whatever became of it; or, see against, that its present subscription selects."`
	New        int             `json:"new" doc:"Events that the subscription selects, and of which the endpoint has no delivery. Deliveries that a replay made more than an hour after the newest of these events do not count."`
	Gone       int             `json:"gone" doc:"Events of which the endpoint has a delivery, and that the subscription does not select. What is delivered or waits is not touched by a change."`
	Examples   []WhatIfExample `json:"examples" nullable:"false" doc:"At most 20 of the events, newest first: before all others, those that are counted as new or gone. Of the archive, the first ones that were read."`
	NextCursor *string         `json:"next_cursor" doc:"Not null: after 5 seconds there were events left. The same request with this cursor goes on with them."`
}

// WhatIfReason counts the events that a subscription does not select for the same reason.
type WhatIfReason struct {
	Reason    string          `json:"reason" enum:"type,filter,apart,channels,changed,condition" doc:"type: no event type selects it. filter: a condition does not hold. apart: enough conditions hold, but not in the same element of an array. channels: it has none of the channels. changed: no path has changed. condition: it does not hold."`
	Path      string          `json:"path" example:"data.total" doc:"Place in the filter, of the condition or of the $or of which no branch holds. Empty: another reason than filter, or a condition for internal, which a caller that is bound to an account does not see."`
	Condition json.RawMessage `json:"condition,omitempty" doc:"List of the filter: one of its values must hold."`
	Events    int             `json:"events"`
}

// WhatIfExample is one of the compared events.
type WhatIfExample struct {
	Event     postrider.EventID `json:"event"`
	Type      string            `json:"type"`
	CreatedAt Time              `json:"created_at" format:"date-time"`
	Delivered bool              `json:"delivered" doc:"True: the endpoint has a delivery of the event; or, see against, its present subscription selects it."`
	Comparison
}

// ArchiveWhatIf is a change of an endpoint's subscription, and the archived events to compare with it. A
// field of the subscription that is left out is as the endpoint has it.
type ArchiveWhatIf struct {
	Subscription

	From *Time  `json:"from,omitempty" format:"date-time" doc:"Only events that were published at this time or later. Default: from the first."`
	To   *Time  `json:"to,omitempty" format:"date-time" doc:"Only events that were published before this time. Default: to the last."`
	Type string `json:"type,omitempty" minLength:"1" doc:"Only events of this type."`
}

// ArchiveComparison is the job that compares archived events with a change of an endpoint's subscription.
type ArchiveComparison struct {
	Endpoint     postrider.EndpointID `json:"endpoint"`
	Status       string               `json:"status" enum:"running,done,failed" doc:"running: more parts of the archive have to be read; the result is that of the parts that were. failed: it does not go on."`
	Error        *string              `json:"error" doc:"Why the last step failed. While the job runs, the step is tried again, for ten minutes. Null: it did not fail."`
	Parts        int                  `json:"parts" doc:"Parts of the archive to read, as there were when the job began, or more."`
	PartsRead    int                  `json:"parts_read"`
	RowsExpunged int64                `json:"rows_expunged" doc:"Events of these parts that nobody can read: the key of their account was destroyed."`
	CreatedAt    Time                 `json:"created_at" format:"date-time"`
	UpdatedAt    Time                 `json:"updated_at" format:"date-time" doc:"When its last step ended. An hour later the job is deleted."`
	Result       WhatIfResult         `json:"result"`
}
