package client

import (
	"encoding/json"
	"fmt"
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

// Account is a customer of your platform. Endpoints and events belong to an account.
type Account struct {
	ID        postrider.AccountID `json:"id"`
	UID       string              `json:"uid"`
	Name      string              `json:"name"`
	CreatedAt time.Time           `json:"created_at"`
	DeletedAt *time.Time          `json:"deleted_at"` // nil: it is not deleted
}

// AccountChange is what to change of an account; nil stays as it is.
type AccountChange struct {
	UID  *string `json:"uid,omitempty"`
	Name *string `json:"name,omitempty"`
}

// NewEvent is an event to publish. Account is an id or your own uid.
type NewEvent struct {
	Account        string          `json:"account,omitempty"` // empty: that of the key
	Type           string          `json:"type"`
	Data           json.RawMessage `json:"-"` // sent as it is, see encode
	APIVersion     string          `json:"api_version,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	OrderingKey    string          `json:"ordering_key,omitempty"`

	// Hops is the Webhook-Hops of the webhook that this event passes on, if it
	// does. With it, events that go round in circles come to an end.
	Hops int `json:"-"`
}

// Event is what was published.
type Event struct {
	ID             postrider.EventID   `json:"id"`
	Account        postrider.AccountID `json:"account"`
	Type           string              `json:"type"`
	APIVersion     string              `json:"api_version"`
	OrderingKey    string              `json:"ordering_key"`
	Sequence       *int64              `json:"sequence"`        // among the events of its ordering key, from 1
	Hops           int                 `json:"hops"`            // senders it had come through before
	IdempotencyKey string              `json:"idempotency_key"` // empty: it was published without one
	CreatedAt      time.Time           `json:"created_at"`
	Data           json.RawMessage     `json:"data,omitempty"` // of one event, while its bytes are kept
}

// BatchReceipt is the server's word that an event of a batch is stored.
type BatchReceipt struct {
	ID        postrider.EventID `json:"id"`
	Duplicate bool              `json:"duplicate"`
}

// NewEventType is an event type for the catalogue.
type NewEventType struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// EventType is an event type of the catalogue.
type EventType struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created_at"`
}

type eventTypeChange struct {
	Description string `json:"description"`
}

// because is the reason for what a person does.
type because struct {
	Reason string `json:"reason,omitempty"`
}

type verification struct {
	Method string `json:"method,omitempty"`
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

	Headers      []Header              `json:"headers"`
	Auth         *Auth                 `json:"auth"` // nil: none
	TLS          *TLS                  `json:"tls"`  // nil: nothing of its own
	MaxRedirects int                   `json:"max_redirects"`
	Compression  postrider.Compression `json:"compression"`

	Warnings   []string   `json:"warnings"`    // what keeps it from being sent to: no_secret, secrets_expire
	VerifiedAt *time.Time `json:"verified_at"` // when its receiver agreed to events at this URL
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	Secrets    []Secret   `json:"secrets,omitempty"` // only when it is made
}

// NewEndpoint is an endpoint to create. What is left zero gets the server's
// default. Account is an id or your own uid.
type NewEndpoint struct {
	Account      string     `json:"account,omitempty"` // empty: that of the key
	URL          string     `json:"url"`
	EventTypes   []string   `json:"event_types"` // order.created, order.* or *
	UID          string     `json:"uid,omitempty"`
	Description  string     `json:"description,omitempty"`
	Retry        *Retry     `json:"retry,omitempty"`
	TimeoutMS    int64      `json:"timeout_ms,omitempty"`
	ClientErrors string     `json:"client_errors,omitempty"` // retry or dead_letter
	Concurrency  int        `json:"concurrency,omitempty"`
	ExpiryMS     int64      `json:"expiry_ms,omitempty"`
	Signature    *Signature `json:"signature,omitempty"`
	Payload      string     `json:"payload,omitempty"` // envelope or raw

	AdaptiveTimeout bool             `json:"adaptive_timeout,omitempty"`
	Circuit         *CircuitPolicy   `json:"circuit,omitempty"`
	Rate            *Rate            `json:"rate,omitempty"`
	Order           postrider.Order  `json:"order,omitempty"`
	OnDead          postrider.OnDead `json:"on_dead,omitempty"`

	Headers      []Header              `json:"headers,omitempty"`
	Auth         *Auth                 `json:"auth,omitempty"`
	TLS          *TLS                  `json:"tls,omitempty"`
	MaxRedirects int                   `json:"max_redirects,omitempty"` // 0 to 3
	Compression  postrider.Compression `json:"compression,omitempty"`

	Secret  string   `json:"secret,omitempty"`   // brought along: whsec_…, whsk_… or 24 to 64 visible ASCII characters
	Secrets []string `json:"secrets,omitempty"`  // several of them, the newest first
	KeyType string   `json:"key_type,omitempty"` // of the secret to make: hmac, which is the default, or ed25519
}

// EndpointChange is a change of an endpoint. A field that is zero keeps its
// value.
type EndpointChange struct {
	// Reset names fields to set back to their defaults, as the API calls them:
	// "retry", "timeout_ms". A field cannot be here and have a value.
	Reset []string `json:"-"`

	URL          string     `json:"url,omitempty"`
	EventTypes   []string   `json:"event_types,omitempty"`
	UID          *string    `json:"uid,omitempty"`
	Description  *string    `json:"description,omitempty"`
	Retry        *Retry     `json:"retry,omitempty"`
	TimeoutMS    int64      `json:"timeout_ms,omitempty"`
	ClientErrors string     `json:"client_errors,omitempty"`
	Concurrency  int        `json:"concurrency,omitempty"`
	ExpiryMS     int64      `json:"expiry_ms,omitempty"`
	Signature    *Signature `json:"signature,omitempty"`
	Payload      string     `json:"payload,omitempty"`

	AdaptiveTimeout *bool            `json:"adaptive_timeout,omitempty"`
	Circuit         *CircuitPolicy   `json:"circuit,omitempty"`
	Rate            *Rate            `json:"rate,omitempty"` // one that is zero is unlimited
	Order           postrider.Order  `json:"order,omitempty"`
	OnDead          postrider.OnDead `json:"on_dead,omitempty"`

	Headers      []Header              `json:"headers,omitzero"`        // all of them; empty, but not nil: none
	Auth         *Auth                 `json:"auth,omitempty"`          // one that is zero ends it
	TLS          *TLS                  `json:"tls,omitempty"`           // one that is zero ends it
	MaxRedirects *int                  `json:"max_redirects,omitempty"` // 0 to 3
	Compression  postrider.Compression `json:"compression,omitempty"`
}

// MarshalJSON writes null for the fields to reset.
func (c EndpointChange) MarshalJSON() ([]byte, error) {
	type plain EndpointChange
	text, err := json.Marshal(plain(c))
	if err != nil || len(c.Reset) == 0 {
		return text, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for _, name := range c.Reset {
		if _, there := fields[name]; there {
			return nil, fmt.Errorf("change of an endpoint: %s has a value and is to be reset", name)
		}
		fields[name] = json.RawMessage("null")
	}
	return json.Marshal(fields)
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
	Burst    int   `json:"burst,omitempty"` // attempts that may start at once; 0: a tenth of Attempts, at least 1
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
	PacedUntil   *time.Time              `json:"paced_until"` // nothing is sent before, by the receiver's Retry-After; nil: it never asked
	Generation   int64                   `json:"generation"`  // how often it was stored; 0: never

	// As they were when the circuit was stored.
	Failures      int               `json:"failures"` // in a row
	LastAttemptAt *time.Time        `json:"last_attempt_at"`
	LastOutcome   postrider.Outcome `json:"last_outcome"`
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

// Secret is a key that an endpoint's requests are signed with.
type Secret struct {
	ID        postrider.SecretID `json:"id"`
	Type      string             `json:"type"`       // hmac, text or ed25519
	Secret    string             `json:"secret"`     // what the receiver verifies with; empty: that is PublicKey
	PublicKey string             `json:"public_key"` // whpk_…; empty unless Type is ed25519
	CreatedAt time.Time          `json:"created_at"`
	ExpiresAt *time.Time         `json:"expires_at"`
}

// SecretRotation is a change of secrets. The zero one makes a secret of the
// default type, and the old ones sign for the default overlap too.
type SecretRotation struct {
	Secret  string         // to bring along, as for a new endpoint
	KeyType string         // of the secret to make: hmac or ed25519
	Overlap *time.Duration // how long the old ones go on; nil: the default, 24 h; 0 ends the old at once
}

// PublicKey is what receivers verify the signatures of a private key with.
type PublicKey struct {
	ID        postrider.SecretID `json:"id"`
	PublicKey string             `json:"public_key"` // whpk_…
	CreatedAt time.Time          `json:"created_at"`
	ExpiresAt *time.Time         `json:"expires_at"`
}

// Reencrypted is the result of one call of [Client.Reencrypt].
type Reencrypted struct {
	Key         string `json:"key"` // the id of the newest encryption key
	Checked     int    `json:"checked"`
	Reencrypted int    `json:"reencrypted"`
	Unreadable  int    `json:"unreadable"`
	Done        bool   `json:"done"`
}

// Delivery is one event on its way to one endpoint.
type Delivery struct {
	ID             postrider.DeliveryID  `json:"id"`
	Event          postrider.EventID     `json:"event"`
	EventType      string                `json:"event_type"`
	Endpoint       postrider.EndpointID  `json:"endpoint"`
	Account        postrider.AccountID   `json:"account"`
	Status         postrider.Status      `json:"status"`
	Reason         string                `json:"reason"`
	Attempts       int                   `json:"attempts"`
	NextAttemptAt  *time.Time            `json:"next_attempt_at"`
	Waiting        *Waiting              `json:"waiting"` // why it is pending; nil: it is not
	CreatedAt      time.Time             `json:"created_at"`
	FinishedAt     *time.Time            `json:"finished_at"`
	LastStatusCode *int                  `json:"last_status_code"`
	LastError      *string               `json:"last_error"`
	ReplayedFrom   *postrider.DeliveryID `json:"replayed_from,omitempty"`
}

// Waiting is why a pending delivery has not been sent yet.
type Waiting struct {
	Reason   postrider.WaitReason  `json:"reason"`
	Until    *time.Time            `json:"until"`    // nil: nobody knows
	Delivery *postrider.DeliveryID `json:"delivery"` // of its ordering key, which goes first
}

// Attempt is one request made for a delivery, with what came back.
type Attempt struct {
	Delivery     postrider.DeliveryID `json:"delivery"`
	Event        postrider.EventID    `json:"event"`
	Endpoint     postrider.EndpointID `json:"endpoint"`
	Attempt      int                  `json:"attempt"` // from 1
	StartedAt    time.Time            `json:"started_at"`
	Outcome      postrider.Outcome    `json:"outcome"`
	StatusCode   *int                 `json:"status_code"` // nil: nothing was answered
	RetryAfterMS *int64               `json:"retry_after_ms"`
	DurationMS   int64                `json:"duration_ms"`
	Error        *string              `json:"error"`
	FinalURL     string               `json:"final_url"`    // where redirects led to, without its query
	RequestHead  string               `json:"request_head"` // heads and bodies come with one delivery's attempts only
	ResponseHead string               `json:"response_head"`
	ResponseBody string               `json:"response_body"`                  // at most its first 16 KiB
	ResponseRaw  []byte               `json:"response_body_base64,omitempty"` // instead, when it is not UTF-8
	Stale        bool                 `json:"stale"`                          // it settled after another node had taken the delivery over
	StatusAfter  postrider.Status     `json:"status_after"`
	NextAt       *time.Time           `json:"next_attempt_at"`
}

// DeadLetter is a delivery that waits for a person.
type DeadLetter struct {
	Delivery       postrider.DeliveryID  `json:"delivery"`
	Event          postrider.EventID     `json:"event"`
	EventType      string                `json:"event_type"`
	Endpoint       postrider.EndpointID  `json:"endpoint"`
	Account        postrider.AccountID   `json:"account"`
	Reason         string                `json:"reason"`
	Attempts       int                   `json:"attempts"`
	LastStatusCode *int                  `json:"last_status_code"`
	LastError      *string               `json:"last_error"`
	ReplayedFrom   *postrider.DeliveryID `json:"replayed_from"`
	DiedAt         time.Time             `json:"died_at"`
	ResolvedAt     *time.Time            `json:"resolved_at"`
	Resolution     *string               `json:"resolution"`
	ResolvedBy     *string               `json:"resolved_by"` // the name of the API key
	Note           *string               `json:"note"`
	Replay         *postrider.DeliveryID `json:"replay"` // the delivery that replays it
}

// DeliveryFilter selects deliveries; a zero field does not.
type DeliveryFilter struct {
	Account     string // an id or your own uid
	Endpoint    postrider.EndpointID
	Event       postrider.EventID
	EventType   string
	Status      postrider.Status
	From, To    time.Time // made at From or later, and before To
	OldestFirst bool
	Paging
}

// EndpointDeliveryFilter selects deliveries of one endpoint; a zero field does
// not.
type EndpointDeliveryFilter struct {
	Event       postrider.EventID
	EventType   string
	Status      postrider.Status
	From, To    time.Time // made at From or later, and before To
	OldestFirst bool
	Paging
}

// EventFilter selects events; a zero field does not.
type EventFilter struct {
	Account  string // an id or your own uid
	Type     string
	From, To time.Time // made at From or later, and before To

	// IdempotencyKey selects the event that the key stands for, while the server
	// remembers the key. It needs the Account, unless the API key is bound to one.
	IdempotencyKey string

	OldestFirst bool
	Paging
}

// EndpointFilter selects endpoints; a zero field does not.
type EndpointFilter struct {
	Account string // an id or your own uid
	UID     string // the endpoint's own; needs the account
	Status  postrider.EndpointStatus
	Paging
}

// DeadLetterFilter selects dead letters; a zero field does not.
type DeadLetterFilter struct {
	Account   string
	Endpoint  postrider.EndpointID
	EventType string
	Reason    string    // why it died, as in [postrider.ReasonExhausted]
	Resolved  bool      // the resolved ones too
	From, To  time.Time // the delivery was made at From or later, and before To

	OldestFirst bool
	Paging
}

// ReplayFilter selects deliveries of an event to replay; a zero field does
// not.
type ReplayFilter struct {
	Endpoint postrider.EndpointID `json:"endpoint,omitzero"`
	Status   postrider.Status     `json:"status,omitempty"`

	// MadeBefore selects endpoints whose last delivery was made before the time.
	// A call that has one can be repeated: what it replayed is not replayed again.
	MadeBefore time.Time `json:"made_before,omitzero"`
}

// eventReplays is the answer to one of the requests of [Client.ReplayEvent].
type eventReplays struct {
	Items      []Delivery `json:"data"`
	MadeBefore *time.Time `json:"made_before"` // nil: nothing is left
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
