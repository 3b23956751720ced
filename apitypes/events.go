package apitypes

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// EventCreate is an event to publish.
type EventCreate struct {
	About

	Account        string          `json:"account,omitempty" minLength:"1" doc:"Id or uid of the account. A key that is bound to an account may leave it out."`
	Type           string          `json:"type" example:"order.created" doc:"Types that begin with postrider. are the server's own."`
	Data           json.RawMessage `json:"data" doc:"Any JSON value. Its bytes are stored, signed and sent unchanged. With content_type a string, whose bytes are the data."`
	DataEncoding   string          `json:"data_encoding,omitempty" enum:"base64" doc:"With content_type: data is the base64 of the bytes. Left out: it is their text."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" minLength:"1" maxLength:"256" doc:"A repeat with the same key and content publishes nothing; the response has the id of the first event."`
	OrderingKey    string          `json:"ordering_key,omitempty" maxLength:"256" doc:"Events with the same key are numbered in the order in which they were accepted. Endpoints with order by_key receive them in this order."`
	APIVersion     string          `json:"api_version,omitempty" maxLength:"64" doc:"Version of your own API that data follows."`

	Endpoints []string `json:"endpoints,omitempty" nullable:"false" minItems:"1" maxItems:"100" example:"[\"shop-7\"]" doc:"Ids or uids of endpoints of the account: the event is for these alone, whatever their event types, filters, channels and changed are. Left out: for those that subscribe to it."`

	MaxAttempts *int `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"Attempts that each delivery of the event has at most. An endpoint whose retry schedule is shorter makes fewer. Default: as many as the schedule of the endpoint."`

	OccurredAt *Time `json:"occurred_at,omitempty" format:"date-time" doc:"When it happened, at most 10 minutes after the time of the server. Endpoints see it as the timestamp of the event. Default: the time of the publish."`

	// Hops is the header Webhook-Hops of the webhook that caused this publish, or 0. The client
	// sends it as a header. The server uses it to stop loops of webhooks.
	Hops int `json:"-"`
	// TraceParent is the header traceparent of W3C Trace Context, which gives the event the trace
	// of its producer. Empty: the event gets its own trace. The events of a batch have one
	// producer, so the first non-empty TraceParent counts for all.
	TraceParent string `json:"-"`
	// TraceState is the header tracestate that belongs to TraceParent. Empty: no such header is
	// sent.
	TraceState string `json:"-"`
}

// EventBatch is a list of events. Either all of them are published or none.
type EventBatch struct {
	Events []EventCreate `json:"events" nullable:"false" minItems:"1" maxItems:"1000"`
}

// Receipt says that an event is stored durably. The server sends it after the commit, so the
// producer need not publish the event again.
type Receipt struct {
	ID         postrider.EventID `json:"id" example:"evt_01h455vb4pex5vsknk084sn02q"`
	Duplicate  bool              `json:"duplicate,omitempty" doc:"True: the event was published before, and this request published nothing."`
	Deliveries *int              `json:"deliveries" doc:"Number of deliveries that were created, without those that are skipped because their endpoint is disabled or its backlog is full. Null: a fan-out job creates them, or the event is a duplicate; list its deliveries."`
	FanOut     bool              `json:"fanout,omitempty" doc:"True: more than 256 endpoints match, and a fan-out job creates the deliveries."`
}

// BatchReceipt says that one event of a batch is stored.
type BatchReceipt struct {
	ID        postrider.EventID `json:"id"`
	Duplicate bool              `json:"duplicate"`
}

// Event is a published event.
type Event struct {
	About

	ID             postrider.EventID   `json:"id"`
	Account        postrider.AccountID `json:"account"`
	Type           string              `json:"type"`
	APIVersion     *string             `json:"api_version"`
	OrderingKey    *string             `json:"ordering_key"`
	Sequence       *int64              `json:"sequence" doc:"Position among the account's events with the same ordering key, from 1. Null: it has no ordering key."`
	IdempotencyKey *string             `json:"idempotency_key" doc:"Idempotency key of its publish. Null: it had none."`
	Hops           int                 `json:"hops" doc:"Number of webhook senders that the event had passed before, from the header Webhook-Hops of its publish."`
	MaxAttempts    *int                `json:"max_attempts" doc:"Attempts that each delivery has at most. Null: as many as the retry schedule of its endpoint."`
	TraceID        string              `json:"trace_id" example:"4bf92f3577b34da6a3ce929d0e0e4736" doc:"Trace of the event: that of the header traceparent of its publish, or else a trace of its own."`
	Test           bool                `json:"test" doc:"True: the event is a test, from POST /endpoints/{endpoint}/test. No producer published it."`
	CreatedAt      Time                `json:"created_at" format:"date-time"`

	DataEncoding string `json:"data_encoding,omitempty" enum:"base64" doc:"Only with content_type: data is the base64 of the bytes, because they are no UTF-8. Left out: it is their text."`

	Endpoints []postrider.EndpointID `json:"endpoints,omitempty" nullable:"false" doc:"The only endpoints that the event is for. Left out: those that subscribe to it."`

	OccurredAt *Time               `json:"occurred_at,omitempty" format:"date-time" nullable:"false" doc:"When it happened, as its publish said. Left out: the publish did not say."`
	OutboxID   *postrider.OutboxID `json:"outbox_id,omitempty" nullable:"false" doc:"Row of the outbox that the event was read from. Left out: it was published by the API."`

	Data json.RawMessage `json:"data,omitempty" doc:"Data of the event, as it was published. Lists leave it out, and so does every response after the data was deleted. The event cannot be replayed then; an archive may have it, see GET /archive/records."`
}

// EventExplanation says whether an endpoint wanted an event when it was published.
type EventExplanation struct {
	Event      postrider.EventID    `json:"event"`
	Endpoint   postrider.EndpointID `json:"endpoint"`
	MatchesNow bool                 `json:"matches_now" doc:"True: the present event types, filter, channels, changed and condition of the endpoint would select the event."`
	Since      *Time                `json:"since" format:"date-time" doc:"Time since which the endpoint had the event types, filter, channels, changed and condition that are explained: those of the time of the event. Null: those of that time are not known, because it is before the endpoint was created, or was too long ago; then the present ones are explained."`
	Until      *Time                `json:"until" format:"date-time" doc:"Time until which the endpoint had them. Null: it has them now."`
	Deleted    bool                 `json:"deleted" doc:"True: the endpoint was deleted before the event was published, so it did not get the event."`
	Directed   bool                 `json:"directed,omitempty" doc:"True: the event names the endpoints that it is for, so matches says whether this is one of them, and nothing else is asked."`
	Comparison
}

// Comparison says whether a subscription selects an event, and why.
type Comparison struct {
	Matches     bool                `json:"matches" doc:"True: the event types, the filter, channels, changed and condition select the event."`
	TypeMatches bool                `json:"type_matches" doc:"True: one of the event types selects the type of the event."`
	Filter      *FilterExplanation  `json:"filter,omitempty" doc:"Left out: there is no filter, or the stored filter cannot be read, so it leaves out no event."`
	Changed     *ChangedExplanation `json:"changed,omitempty" doc:"Left out: there is no changed, or the stored policy cannot be read, so it leaves out no event."`
	Channels    *ChannelExplanation `json:"channels,omitempty" doc:"Left out: there are no channels, or the stored policy cannot be read, so they leave out no event."`

	Condition *ConditionExplanation `json:"condition,omitempty" doc:"Left out: there is no condition, or the endpoint is set aside, so it leaves out no event."`
}

// ChannelExplanation says which of the channels of an endpoint an event has.
type ChannelExplanation struct {
	Matches  bool     `json:"matches"`
	Channels []string `json:"channels" nullable:"false" doc:"Channels of the endpoint that the event has; empty: none."`
}

// ConditionExplanation says whether the condition of an endpoint holds for an event.
type ConditionExplanation struct {
	Matches bool    `json:"matches" doc:"True: it holds, or could not be evaluated, so there is a delivery."`
	Text    *string `json:"text" doc:"The condition. Null: it uses internal, and the caller is bound to an account."`
	Error   *string `json:"error" doc:"Why it could not be evaluated; the delivery is then a dead letter, filter_failed. Null: it was evaluated, or text is null."`
	Cost    int     `json:"cost" doc:"What the evaluation cost; the limit is 20000. 0, if the text is null."`
}

// ChangedExplanation says whether one of the changed paths of an endpoint has changed in an event.
type ChangedExplanation struct {
	Matches bool     `json:"matches"`
	Told    bool     `json:"told" doc:"False: the event has neither previous nor changed_paths, so changed does not hold."`
	Paths   []string `json:"paths" nullable:"false" doc:"Paths of changed that have changed; empty: none."`
}

// FilterExplanation says whether a filter holds for an event, condition by condition.
type FilterExplanation struct {
	Matches    bool              `json:"matches"`
	Apart      bool              `json:"apart" doc:"True: enough conditions hold, but not in the same element of an array. So the filter does not hold."`
	Conditions []FilterCondition `json:"conditions" nullable:"false" doc:"Conditions of the filter, in its order. A caller that is bound to an account does not see those for the field internal."`
}

// FilterCondition is one list of a filter, compared with an event.
type FilterCondition struct {
	Path      string          `json:"path" example:"data.total" doc:"Place in the filter."`
	Condition json.RawMessage `json:"condition" doc:"List of the filter: one of its values must hold."`
	Holds     bool            `json:"holds"`
	Found     *string         `json:"found" doc:"JSON of the field of the event, cut after 256 bytes. Of the objects in an array, it is the one that fits best. Null: the event has no such field."`
}

// EventReplay selects deliveries of an event to replay.
type EventReplay struct {
	Endpoint  string           `json:"endpoint,omitempty" minLength:"1" doc:"Replay to this endpoint alone."`
	Status    postrider.Status `json:"status,omitempty" enum:"delivered,dead,cancelled,skipped" doc:"Replay only where the last delivery to an endpoint has this status."`
	PerSecond *int             `json:"per_second,omitempty" minimum:"1" maximum:"5000" doc:"How many deliveries are replayed in a second, at most. Default: 500."`
}
