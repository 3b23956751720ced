package client

import (
	"encoding/json"
	"time"

	"github.com/postrider/postrider"
)

// Page is one page of a list. A page may be short, or empty, while there is a
// next one.
type Page[T any] struct {
	Items []T    `json:"data"`
	Next  string `json:"next_cursor"` // empty: this is the last
}

// Paging asks for one page of a list.
type Paging struct {
	Limit  int    // at most 250; 0: the server's default, 50
	Cursor string // a [Page.Next]; empty: from the start
}

// NewAccount is an account to create.
type NewAccount struct {
	UID  string `json:"uid,omitempty"` // your own name for it
	Name string `json:"name,omitempty"`
}

// Account is whose endpoints they are.
type Account struct {
	ID        postrider.AccountID `json:"id"`
	UID       string              `json:"uid"`
	Name      string              `json:"name"`
	CreatedAt time.Time           `json:"created_at"`
}

// NewEvent is an event to publish. Account is an id or your own uid.
type NewEvent struct {
	Account        string          `json:"account"`
	Type           string          `json:"type"`
	Data           json.RawMessage `json:"-"` // sent as it is, see encode
	APIVersion     string          `json:"api_version,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	OrderingKey    string          `json:"ordering_key,omitempty"`
}

// Receipt is the server's word that an event is stored.
type Receipt struct {
	ID         postrider.EventID `json:"id"`
	Duplicate  bool              `json:"duplicate"`  // the same key and content were published before
	Deliveries *int              `json:"deliveries"` // how many were made; nil: a fan-out job makes them
	FanOut     bool              `json:"fanout"`
}

// Endpoint is where events are sent to.
type Endpoint struct {
	ID           postrider.EndpointID     `json:"id"`
	Account      postrider.AccountID      `json:"account"`
	UID          string                   `json:"uid"`
	URL          string                   `json:"url"`
	Description  string                   `json:"description"`
	EventTypes   []string                 `json:"event_types"`
	Status       postrider.EndpointStatus `json:"status"`
	StatusReason string                   `json:"status_reason"`
	Retry        *Retry                   `json:"retry,omitempty"`
	TimeoutMS    int64                    `json:"timeout_ms"`
	ClientErrors string                   `json:"client_errors"`
	Concurrency  int                      `json:"concurrency"`
	ExpiryMS     int64                    `json:"expiry_ms"`
	Signature    *Signature               `json:"signature,omitempty"`
	Payload      string                   `json:"payload"`

	AdaptiveTimeout bool             `json:"adaptive_timeout"`
	Circuit         *CircuitPolicy   `json:"circuit,omitempty"`
	Rate            *Rate            `json:"rate"` // nil: unlimited
	Order           postrider.Order  `json:"order"`
	OnDead          postrider.OnDead `json:"on_dead"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Secrets   []Secret  `json:"secrets,omitempty"` // only when it is made
}

// NewEndpoint is an endpoint to create. What is left zero gets the server's
// default. Account is an id or your own uid.
type NewEndpoint struct {
	Account      string     `json:"account"`
	URL          string     `json:"url"`
	EventTypes   []string   `json:"event_types"` // order.created, order.* or *
	UID          string     `json:"uid,omitempty"`
	Description  string     `json:"description,omitempty"`
	Retry        *Retry     `json:"retry,omitempty"`
	TimeoutMS    int64      `json:"timeout_ms,omitempty"`
	ClientErrors string     `json:"client_errors,omitempty"` // retry or dead_letter
	Concurrency  int        `json:"concurrency,omitempty"`
	Signature    *Signature `json:"signature,omitempty"`
	Payload      string     `json:"payload,omitempty"` // envelope or raw

	AdaptiveTimeout bool             `json:"adaptive_timeout,omitempty"`
	Circuit         *CircuitPolicy   `json:"circuit,omitempty"`
	Rate            *Rate            `json:"rate,omitempty"`
	Order           postrider.Order  `json:"order,omitempty"`
	OnDead          postrider.OnDead `json:"on_dead,omitempty"`
}

// EndpointChange is what to change of an endpoint. What is left zero stays as
// it is.
type EndpointChange struct {
	URL          string     `json:"url,omitempty"`
	EventTypes   []string   `json:"event_types,omitempty"`
	UID          *string    `json:"uid,omitempty"`
	Description  *string    `json:"description,omitempty"`
	Retry        *Retry     `json:"retry,omitempty"`
	TimeoutMS    int64      `json:"timeout_ms,omitempty"`
	ClientErrors string     `json:"client_errors,omitempty"`
	Concurrency  int        `json:"concurrency,omitempty"`
	Signature    *Signature `json:"signature,omitempty"`
	Payload      string     `json:"payload,omitempty"`

	AdaptiveTimeout *bool            `json:"adaptive_timeout,omitempty"`
	Circuit         *CircuitPolicy   `json:"circuit,omitempty"`
	Rate            *Rate            `json:"rate,omitempty"` // one that is zero is unlimited
	Order           postrider.Order  `json:"order,omitempty"`
	OnDead          postrider.OnDead `json:"on_dead,omitempty"`
}

// CircuitPolicy says when an endpoint's circuit opens: the name of a preset,
// or numbers. Of numbers that are left zero, cooldowns are those of the preset
// default, and the others open nothing. An answer has the numbers, and the
// name where there is one for them.
type CircuitPolicy struct {
	Preset        string `json:"preset,omitempty"`   // default, strict, windowed or never
	Failures      int    `json:"failures,omitempty"` // in a row
	Percent       int    `json:"percent,omitempty"`  // of the window
	Attempts      int    `json:"attempts,omitempty"` // the window, in attempts; or
	WindowMS      int64  `json:"window_ms,omitempty"`
	CooldownMS    int64  `json:"cooldown_ms,omitempty"`
	MaxCooldownMS int64  `json:"max_cooldown_ms,omitempty"`
}

// Rate is how many attempts may start in a span of time. The zero Rate is
// unlimited.
type Rate struct {
	Attempts int   `json:"attempts"`
	PerMS    int64 `json:"per_ms"`
}

// MarshalJSON returns null for the zero Rate.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r == (Rate{}) {
		return []byte("null"), nil
	}
	type plain Rate
	return json.Marshal(plain(r))
}

// Circuit is an endpoint's breaker: while it is not closed, nothing is sent
// but a probe now and then.
type Circuit struct {
	Status       postrider.CircuitStatus `json:"status"`
	Reason       string                  `json:"reason"` // why it opened the last time; empty: it never did
	OpenedAt     *time.Time              `json:"opened_at"`
	ProbeAt      *time.Time              `json:"probe_at"`
	CooldownMS   int64                   `json:"cooldown_ms"`
	FailingSince *time.Time              `json:"failing_since"`
	Generation   int64                   `json:"generation"` // counts its changes; 0: it never changed
}

// OrderedKey is how far an ordering key has come at an endpoint with the order
// by_key.
type OrderedKey struct {
	Key      string                `json:"key"`
	Waiting  int                   `json:"waiting"` // counted up to 1,000
	Head     *postrider.DeliveryID `json:"head"`    // whose turn it is
	Sequence *int64                `json:"sequence"`
	Since    *time.Time            `json:"since"`
	LagMS    int64                 `json:"lag_ms"`
	PausedBy *postrider.DeliveryID `json:"paused_by"` // the dead letter that the key waits for
}

// Standing is how an endpoint has done in the long run, from one time on.
type Standing struct {
	Number   int64                    `json:"number"` // from 1
	Status   postrider.StandingStatus `json:"status"`
	Reason   string                   `json:"reason"`
	Warnings int                      `json:"warnings"` // since it was good
	Since    time.Time                `json:"since"`
}

// Retry is a retry policy: the name of a preset, or one delay for each
// attempt, or a formula.
type Retry struct {
	Preset      string  `json:"preset,omitempty"`
	DelaysMS    []int64 `json:"delays_ms,omitempty"`
	BaseMS      int64   `json:"base_ms,omitempty"`
	Factor      float64 `json:"factor,omitempty"`
	CapMS       int64   `json:"cap_ms,omitempty"`
	MaxAttempts int     `json:"max_attempts,omitempty"`
	Jitter      string  `json:"jitter,omitempty"` // none, full, equal, 10% or +10%
}

// Signature says how an endpoint's requests are signed.
type Signature struct {
	Schemes []string `json:"schemes"` // standard, timestamped, plain
}

// Secret is a key that an endpoint's requests are signed with.
type Secret struct {
	ID        postrider.SecretID `json:"id"`
	Secret    string             `json:"secret"` // whsec_…
	CreatedAt time.Time          `json:"created_at"`
	ExpiresAt *time.Time         `json:"expires_at"`
}

// Delivery is one event on its way to one endpoint.
type Delivery struct {
	ID             postrider.DeliveryID  `json:"id"`
	Event          postrider.EventID     `json:"event"`
	EventType      string                `json:"event_type"`
	Endpoint       postrider.EndpointID  `json:"endpoint"`
	Status         postrider.Status      `json:"status"`
	Reason         string                `json:"reason"`
	Attempts       int                   `json:"attempts"`
	NextAttemptAt  *time.Time            `json:"next_attempt_at"`
	CreatedAt      time.Time             `json:"created_at"`
	FinishedAt     *time.Time            `json:"finished_at"`
	LastStatusCode *int                  `json:"last_status_code"`
	LastError      *string               `json:"last_error"`
	ReplayedFrom   *postrider.DeliveryID `json:"replayed_from,omitempty"`
}

// Attempt is one request made for a delivery, with what came back.
type Attempt struct {
	Attempt      int               `json:"attempt"`
	StartedAt    time.Time         `json:"started_at"`
	Outcome      postrider.Outcome `json:"outcome"`
	StatusCode   *int              `json:"status_code"`
	DurationMS   int64             `json:"duration_ms"`
	Error        *string           `json:"error"`
	ResponseBody string            `json:"response_body"`
	NextAt       *time.Time        `json:"next_attempt_at,omitempty"`
}

// DeadLetter is a delivery that waits for a person.
type DeadLetter struct {
	Delivery       postrider.DeliveryID  `json:"delivery"`
	Event          postrider.EventID     `json:"event"`
	EventType      string                `json:"event_type"`
	Endpoint       postrider.EndpointID  `json:"endpoint"`
	Reason         string                `json:"reason"`
	Attempts       int                   `json:"attempts"`
	LastStatusCode *int                  `json:"last_status_code"`
	LastError      *string               `json:"last_error"`
	DiedAt         time.Time             `json:"died_at"`
	ResolvedAt     *time.Time            `json:"resolved_at"`
	Resolution     *string               `json:"resolution"`
	ResolvedBy     *string               `json:"resolved_by"` // the name of the API key
	Note           *string               `json:"note"`
	Replay         *postrider.DeliveryID `json:"replay"` // the delivery that replays it
}

// DeliveryFilter selects deliveries; a zero field does not.
type DeliveryFilter struct {
	Account   string // an id or your own uid
	Endpoint  postrider.EndpointID
	EventType string
	Status    postrider.Status
	Paging
}

// EndpointFilter selects endpoints; a zero field does not.
type EndpointFilter struct {
	Account string
	Status  postrider.EndpointStatus
	Paging
}

// DeadLetterFilter selects dead letters; a zero field does not.
type DeadLetterFilter struct {
	Account   string
	Endpoint  postrider.EndpointID
	EventType string
	Resolved  bool // the resolved ones too
	Paging
}

// ReplayFilter selects deliveries of an event to replay; a zero field does
// not.
type ReplayFilter struct {
	Endpoint postrider.EndpointID `json:"endpoint,omitzero"`
	Status   postrider.Status     `json:"status,omitempty"`
}

// NewKey is an API key to make.
type NewKey struct {
	Name      string            `json:"name"`
	Scopes    []postrider.Scope `json:"scopes"`
	Account   string            `json:"account,omitempty"` // an id or your own uid; empty: every account
	ExpiresAt *time.Time        `json:"expires_at,omitempty"`
}

// Key is an API key.
type Key struct {
	ID         postrider.KeyID      `json:"id"`
	Name       string               `json:"name"`
	Scopes     []postrider.Scope    `json:"scopes"`
	Account    *postrider.AccountID `json:"account"` // nil: every account
	CreatedAt  time.Time            `json:"created_at"`
	ExpiresAt  *time.Time           `json:"expires_at"`
	RevokedAt  *time.Time           `json:"revoked_at"`
	LastUsedAt *time.Time           `json:"last_used_at"`
	Key        string               `json:"key,omitempty"` // only when it is made
}
