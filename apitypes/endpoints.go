package apitypes

import "github.com/postrider/postrider"

// EndpointCreate is a request to create an endpoint.
type EndpointCreate struct {
	Account     string                 `json:"account,omitempty" minLength:"1" doc:"Id or uid of the account. A key that is bound to an account may leave it out."`
	UID         string                 `json:"uid,omitempty" minLength:"1" doc:"Your own name for the endpoint, unique in the account."`
	Kind        postrider.EndpointKind `json:"kind,omitempty" enum:"http,inspector" doc:"http, the default: requests are sent to the URL. inspector: requests are signed and kept in the server, for people who have no receiver yet; see GET /endpoints/{endpoint}/requests. It never changes."`
	URL         string                 `json:"url,omitempty" example:"https://acme.example/hooks" doc:"Required, but an inspector has none."`
	Description string                 `json:"description,omitempty"`
	Metadata    Metadata               `json:"metadata,omitempty" doc:"What you want to note of the endpoint: at most 20 keys, and 2 KiB of keys and values. The customers of the account can read it."`
	EventTypes  []string               `json:"event_types" nullable:"false" example:"[\"order.*\"]" doc:"Event types that the endpoint receives: a type, a prefix like order.*, or * for all that producers publish. Events of the server itself, whose types begin with postrider., are selected by their type or by postrider.* alone."`
	Policy
	NewSecrets
}

// EndpointUpdate is a change of an endpoint.
type EndpointUpdate struct {
	UID         Optional[string]   `json:"uid,omitzero" doc:"Your own name for the endpoint, unique in the account. Null removes it."`
	URL         string             `json:"url,omitempty" minLength:"1"`
	Description Optional[string]   `json:"description,omitzero" doc:"Null removes it."`
	Metadata    Optional[Metadata] `json:"metadata,omitzero" doc:"It replaces all keys. Null removes it. The customers of the account can read it."`
	EventTypes  []string           `json:"event_types,omitempty" nullable:"false"`
	Policy
}

// EndpointPut is an endpoint to create, or to replace by this one. A field that is left out gets its
// default, as one that is null does.
type EndpointPut struct {
	Kind        postrider.EndpointKind `json:"kind,omitempty" enum:"http,inspector" doc:"See the creation of an endpoint. It must be that of the endpoint that is replaced."`
	URL         string                 `json:"url,omitempty" example:"https://acme.example/hooks" doc:"Required, but an inspector has none."`
	Description Optional[string]       `json:"description,omitzero"`
	Metadata    Optional[Metadata]     `json:"metadata,omitzero" doc:"What you want to note of the endpoint: at most 20 keys, and 2 KiB of keys and values. The customers of the account can read it."`
	EventTypes  []string               `json:"event_types" nullable:"false" example:"[\"order.*\"]" doc:"Event types that the endpoint receives."`
	Policy
	NewSecrets
}

// Endpoint is a URL, or an inspector, that receives events. It has every field of its policy,
// unless it has a PolicyError. The fields rate, auth and tls may be null.
type Endpoint struct {
	ID           postrider.EndpointID     `json:"id"`
	Account      postrider.AccountID      `json:"account"`
	UID          *string                  `json:"uid"`
	Kind         postrider.EndpointKind   `json:"kind" enum:"http,inspector"`
	URL          string                   `json:"url" doc:"Empty: an inspector has none."`
	Description  string                   `json:"description"`
	Metadata     Metadata                 `json:"metadata" nullable:"true" doc:"What was noted of the endpoint. The customers of the account can read it. Null: nothing."`
	EventTypes   []string                 `json:"event_types" nullable:"false"`
	Status       postrider.EndpointStatus `json:"status" enum:"enabled,paused,disabled,deleted"`
	StatusReason *string                  `json:"status_reason"`
	StatusSince  Time                     `json:"status_since" format:"date-time" doc:"Time when the status changed last."`
	FullSince    *Time                    `json:"backlog_full_since" format:"date-time" doc:"Since when as many deliveries wait for the endpoint as its account may have, so that new events are skipped for it. Null: fewer wait."`
	Policy
	PolicyError *string  `json:"policy_error" doc:"Why the stored policy of the endpoint cannot be read, with the names of its fields. The fields of the policy are then left out, and its deliveries wait until an update names all of them, or until a server that can read the policy owns the endpoint. It is also set, but the fields are there, if the condition could not be evaluated for 20 events in a row: then its deliveries wait until an update names condition. Null: it can be read."`
	Warnings    []string `json:"warnings" nullable:"false" enum:"policy_unreadable,no_secret,secrets_expire,unverified,backlog_full" doc:"What is wrong with the endpoint. policy_unreadable: see policy_error; nothing is sent. no_secret: no secret is valid, and nothing can be sent until a rotation adds one. secrets_expire: every secret will expire, and then nothing can be sent; rotate the secret. unverified: its receiver has not agreed to events at this URL, so it cannot be resumed or enabled before it is verified. backlog_full: see backlog_full_since; new events are skipped for the endpoint."`
	VerifiedAt  *Time    `json:"verified_at" format:"date-time" doc:"Time when the receiver agreed to events at this URL. Null: it never did."`
	CreatedAt   Time     `json:"created_at" format:"date-time"`
	UpdatedAt   Time     `json:"updated_at" format:"date-time"`
	Revision    int64    `json:"revision" doc:"Number of changes, from 1. The ETag of a response is this number in quotes; see If-Match."`
	Secrets     []Secret `json:"secrets,omitempty" nullable:"false" doc:"Secrets of the new endpoint. Only in the response that creates it."`

	State *EndpointState `json:"state,omitempty" doc:"How the endpoint fares. Only in lists."`
}

// EndpointState says how well an endpoint responds, and how many deliveries wait for it.
type EndpointState struct {
	Health       postrider.HealthStatus  `json:"health" enum:"healthy,warned,disabled" doc:"The assessment of hours and days. healthy: it has neither been warned about nor disabled, or has recovered since; its last attempts may have failed. warned: it has failed for hours. disabled: it was disabled for its failures."`
	HealthReason *string                 `json:"health_reason" enum:"failing,dead_letters,gone,aborted_by_receiver" doc:"Why the endpoint is not healthy. Null: it is."`
	Circuit      postrider.CircuitStatus `json:"circuit" enum:"closed,open,half_open"`
	FailingSince *Time                   `json:"failing_since" format:"date-time" doc:"Time of the first failure of the current streak, once it is a minute old or the circuit opened. Null: the last attempt did not fail, or the streak is younger."`
	Pending      int                     `json:"pending" maximum:"1000" doc:"Number of pending deliveries. Counting stops at 1000."`
	PendingMore  bool                    `json:"pending_more" doc:"True: counting stopped, so there may be more pending deliveries."`
	OldestDueMS  *int64                  `json:"oldest_due_ms" doc:"Time since the first of them is due, in milliseconds. Null: none is overdue."`
	LastFailure  *LastFailure            `json:"last_failure" doc:"The last request that was not accepted. Null: the endpoint does not fail, or none of its newest hundred attempts failed."`
	Delivered    int64                   `json:"delivered" doc:"Number of deliveries that were delivered in the last 24 hours, and in the part of the hour before them."`
	Dead         int64                   `json:"dead" doc:"Number of deliveries that became dead letters in the same time."`
	SuccessRate  *float64                `json:"success_rate" doc:"Share of delivered, of delivered and dead. Null: there are none."`
}

// EndpointReason is the body of a request that changes the status of an endpoint. It says why a
// person changes it.
type EndpointReason struct {
	Reason string `json:"reason,omitempty"`
}

// TestType is the default type of test events. Only the server publishes events of this type.
const TestType = "postrider.test"

// PingType is the type of the event that a new endpoint, or one with a new URL, gets if the operator
// wants that. Only the server publishes events of this type.
const PingType = "postrider.ping"

// EndpointTest is a request for a test event.
type EndpointTest struct {
	Type string `json:"type,omitempty" example:"order.created" doc:"Type of the event; default postrider.test. Its data is the example of the type in the catalogue, or, if there is none, an object with the id of the endpoint."`
}

// EndpointVerification is a request to verify an endpoint.
type EndpointVerification struct {
	Method string `json:"method,omitempty" enum:"challenge,cloudevents" doc:"How the receiver is asked. Default: the method that the operator configured, if any; otherwise the field is required."`
}

// Circuit is an endpoint's circuit breaker. While it is open or half open, no attempt is made
// except a probe from time to time. The fields have the stored values: the server that sends to the
// endpoint knows more recent ones.
type Circuit struct {
	Status        postrider.CircuitStatus `json:"status" enum:"closed,open,half_open" doc:"closed: attempts are made. open: no attempt is made before probe_at. half_open: the cooldown is over, and the next delivery that is due is sent as the probe, or the probe is under way. It stays half open while nothing is due."`
	Reason        *string                 `json:"reason" enum:"failures_in_row,failure_ratio,probe_failed,manual" doc:"Why the circuit opened the last time. Null: it never opened."`
	OpenedAt      *Time                   `json:"opened_at" format:"date-time" doc:"Time since which the circuit is not closed. Null: it is closed."`
	ProbeAt       *Time                   `json:"probe_at" format:"date-time" doc:"Open: time of the next probe. Half open: time by which the probe ends. In the past: nothing has been due for a probe since."`
	CooldownMS    int64                   `json:"cooldown_ms" doc:"Time from the attempt that opened the circuit, or from its last probe, to the next probe. 0: the circuit has recovered since."`
	FailingSince  *Time                   `json:"failing_since" format:"date-time" doc:"Time of the first failure of the current streak. Set when the circuit opens, or with the first failure that comes a minute after it. Null: the last attempt did not fail, or the streak is younger."`
	PacedUntil    *Time                   `json:"paced_until" format:"date-time" doc:"No attempt is made before this time: the receiver asked for it with Retry-After. Null: it never asked."`
	Failures      int                     `json:"failures" doc:"Number of attempts in a row that failed, when the circuit was last stored."`
	LastAttemptAt *Time                   `json:"last_attempt_at" format:"date-time" doc:"End of the last attempt before the circuit was last stored. Null: none is known. The attempts of the endpoint's deliveries are complete."`
	LastOutcome   *postrider.Outcome      `json:"last_outcome" doc:"Outcome of that attempt."`
	LastFailure   *LastFailure            `json:"last_failure" doc:"The last request to the endpoint that was not accepted. Null: none of its newest hundred attempts failed."`
	Pace          *Pace                   `json:"pace" doc:"How much is sent to the endpoint now. Null: another server than the one that responds sends to it."`
	Generation    int64                   `json:"generation" doc:"Number of times that this circuit was stored: when it changed, when the receiver asked for time, once a minute while every attempt fails, and after each attempt at a rate of one a second or slower. 0: never."`
}

// LastFailure is the last request to an endpoint that was not accepted.
type LastFailure struct {
	Delivery   postrider.DeliveryID `json:"delivery"`
	Attempt    int                  `json:"attempt" doc:"Number of the attempt of that delivery."`
	StartedAt  Time                 `json:"started_at" format:"date-time"`
	Outcome    postrider.Outcome    `json:"outcome" enum:"rejected,gone,throttled,unreachable,timed_out,broken,blocked"`
	StatusCode *int                 `json:"status_code" doc:"Null: there was no response."`
	Error      *string              `json:"error"`
	Body       *string              `json:"body" doc:"At most the first 200 bytes of the response body. Null: there was none, or it is not text."`
}

// Pace says how many attempts the server allows to be in flight to an endpoint now.
type Pace struct {
	Slots     int     `json:"slots" doc:"Number of attempts that may be in flight now: the concurrency window, or the probe of an open circuit."`
	Limit     int     `json:"limit" doc:"Number of attempts that may be in flight while the endpoint accepts everything: concurrency, as far as one endpoint may have slots of a server."`
	InFlight  int     `json:"in_flight" doc:"Number of attempts in flight."`
	Reason    *string `json:"reason" enum:"postponed,retry_after,no_response,window,rate" doc:"Why less is sent than the limit. postponed: the server could not make the last attempt, because it lacks something, such as file descriptors or the key of a secret. retry_after: the receiver asked for time. no_response: the last attempt got no response. window: the endpoint throttled or failed until lately, and the window grows with each accepted attempt. rate: the rate of the policy is used up. Null: nothing holds it back."`
	ResumesAt *Time   `json:"resumes_at" format:"date-time" doc:"Nothing is sent before this time. Null: attempts may start."`
}

// CircuitUpdate is the request of a person to set a circuit.
type CircuitUpdate struct {
	Status postrider.CircuitStatus `json:"status" enum:"closed,open,half_open" doc:"open: make no attempt for max_cooldown_ms. closed: make attempts, whatever the receiver asked for. half_open: make one attempt, the probe, as soon as a delivery is due."`
}

// OrderedKey is the progress of an ordering key at an endpoint with order by_key.
type OrderedKey struct {
	Key      string                `json:"key"`
	Waiting  int                   `json:"waiting" doc:"Number of pending deliveries of the key, with the head. Counting stops at 1000."`
	Head     *postrider.DeliveryID `json:"head" nullable:"true" doc:"Id of the next delivery of the key. Null: none is pending."`
	Sequence *int64                `json:"sequence" doc:"Sequence of the head. Null: there is no head."`
	Since    Time                  `json:"since" format:"date-time" doc:"Time when the head was created; for a paused key, time when it was paused."`
	LagMS    int64                 `json:"lag_ms" doc:"Time since then, in milliseconds."`
	PausedBy *postrider.DeliveryID `json:"paused_by" nullable:"true" doc:"Id of the dead letter that pauses the key. Null: it is not paused."`
}

// EndpointHealth is one change of an endpoint's health. Health is decided by the failures of hours
// and days; the circuit is decided by the last attempts.
type EndpointHealth struct {
	Number   int64                  `json:"number" doc:"Number of the change, from 1."`
	Status   postrider.HealthStatus `json:"status" enum:"healthy,warned,disabled" doc:"healthy: attempts succeed. warned: it has failed for hours. disabled: it was disabled for its failures, until a person enables it."`
	Reason   *string                `json:"reason" enum:"failing,dead_letters,gone,aborted_by_receiver" doc:"Why the endpoint is not healthy. Null: it is."`
	Warnings int                    `json:"warnings" doc:"Number of warnings since the endpoint was last healthy."`
	Since    Time                   `json:"since" format:"date-time"`
}

// Inspection is a request that an inspector endpoint got.
type Inspection struct {
	ID        postrider.InspectionID `json:"id"`
	Endpoint  postrider.EndpointID   `json:"endpoint"`
	Delivery  postrider.DeliveryID   `json:"delivery"`
	Event     postrider.EventID      `json:"event"`
	EventType string                 `json:"event_type"`
	Attempt   int                    `json:"attempt"`
	At        Time                   `json:"at" format:"date-time" doc:"Time when the request was made."`
	Headers   []RequestHeader        `json:"headers" nullable:"false" doc:"The header as a receiver would get it. Credentials are masked, signatures are not."`
	Body      *string                `json:"body" doc:"At most the first 256 KiB of the body, before it is compressed. Null: it is in body_base64, or this is a list."`
	BodyRaw   []byte                 `json:"body_base64,omitempty" doc:"The body in base64, if it is not UTF-8."`
	BodyBytes int                    `json:"body_bytes" doc:"Length of the whole body."`
	Verdicts  []Verdict              `json:"verdicts" nullable:"false" doc:"Whether the request verifies, by each scheme of the endpoint."`
}

// Verdict says whether a request verifies in one scheme, as a receiver would verify it.
type Verdict struct {
	Scheme postrider.Scheme    `json:"scheme" enum:"standard,stripe,github,github-sha1,shopify,slack,svix,timestamped,plain"`
	Header string              `json:"header" doc:"Name of the header that carries the signature."`
	Valid  bool                `json:"valid"`
	Secret *postrider.SecretID `json:"secret" nullable:"true" doc:"Newest secret with which the request verifies. Null: it does not."`
	Reason *string             `json:"reason" doc:"Why the request does not verify. Null: it does."`
}
