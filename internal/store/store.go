// Package store defines what a store of events and deliveries must do.
//
// A [Store] has these roles, each for one part of the program:
//
//   - [Inbox] for ingest, and [Queue] for dispatch
//   - [Directory], [Access], [Sessions], [Audit], [PortalSettings] and [Catalogue] for the API
//   - [Destinations] for the API and for messages, and [Notices] for facts that people should be
//     told
//   - [Inspections] for the requests that inspector endpoints received
//   - [Ledger] and [Finder] for the history that people look at, and [Rollups] for its numbers
//   - [Replays] for replay jobs, and [Quotas] for what accounts may use
//   - [Encryption] for secrets
//   - [Upkeep], [Retention] and [Expunges] for the janitor
//   - [Archive], [Restored] and [WhatIfs] for the archive
//   - [Holding] for a store that was restored
//   - [Sources] for the outboxes of producers
//
// A store that several nodes can share has one more role, [Nodes]. Every method is one
// transaction: it happens completely or not at all, and its result is on disk when it returns. No
// method returns a transaction.
//
// Three packages implement the roles: memory, sqlite and postgres. The last two get most of their
// verbs from package sqlstore. Package storetest tests each of the three against the sentences of
// these comments. This package also has the code that all stores
// share: ids, the clock, documents of policies, pages and cursors, and the rule of idempotency
// keys (keys.go).
//
// These rules hold for every method of every store:
//
//   - Times are UTC microseconds by the store's [Clock]. Now decides which work is due, leased or
//     expired, and people see Wall. The caller gives waits as durations; the store adds them to
//     its own Now.
//   - If an object does not exist, or belongs to another account, the error is
//     [postrider.ErrNotFound].
//   - If the store cannot be reached, is read-only or is too busy, the error is
//     [postrider.ErrBusy]. If its disk is full, the error is ErrFull. In both cases nothing was
//     stored. If the reply to a commit was lost, the store looks whether the commit was stored.
//     Only if that fails too, the caller cannot know.
//   - Methods may be called from any goroutine. A store does not keep the slices and bytes that
//     it is given. Those that it returns belong to the caller.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
)

// Store has all the roles.
type Store interface {
	Inbox
	Queue
	Directory
	Access
	Sessions
	Audit
	PortalSettings
	Destinations
	Inspections
	Catalogue
	Encryption
	Ledger
	Finder
	Replays
	Rollups
	Upkeep
	Health
	Probes
	Time
	Holding
	Retention
	Notices
	Quotas
	Archive
	ArchiveKeys
	Restored
	WhatIfs
	Expunges
	Sources

	// Close closes the store, after the calls under way have finished.
	Close() error
}

// ErrMoved says that the subscriptions changed after the deliveries of a [Publish] were matched.
var ErrMoved = errors.New("subscriptions moved on")

// ErrFull says that the disk of the store is full. It matches [postrider.ErrBusy].
var ErrFull = fmt.Errorf("the disk is full: %w", postrider.ErrBusy)

// Inbox stores published events.
type Inbox interface {
	// Publish stores the batches in one transaction. It returns one result for each batch, in their
	// order.
	//
	// If p.Version is not the version of the subscriptions, read after Publish was called, it stores
	// nothing and returns ErrMoved.
	// A batch is stored completely or not at all. If one of its idempotency keys belongs to other
	// content, Conflict is the index of that event, and nothing of the batch is stored; other
	// batches are not affected.
	// If another transaction keeps a key of the batch locked, the batch is not stored and has Locked
	// set.
	// An event whose idempotency key belongs to the same content is a Duplicate with the id of the
	// first event, and its deliveries are not stored. This holds within one call and across parallel
	// calls.
	// An event whose Row is recorded is a Duplicate too; see [Sources].
	// An event with an ordering key gets the next Sequence of its account and key: from 1, without
	// gaps, in the order of commits.
	// A delivery with a Token is stored leased. A delivery without a Token waits. A delivery with
	// Skipped is recorded as skipped, for that reason, and is never queued.
	// A delivery with a Step keeps it in the queue.
	// Among the pending deliveries with Ordered of one endpoint and ordering key, the head is the
	// one with the lowest sequence. Only the head is ever due; while the key is paused, no delivery
	// of the key is due.
	// A head that is due stays the head until it ends, even if a replay job adds deliveries with
	// lower sequences.
	// An event with FanOutUpTo gets a fan-out job instead of deliveries.
	// A publish that is repeated with the same ids, after its reply was lost, stores nothing twice
	// and returns the same result.
	Publish(ctx context.Context, p Publish) ([]Published, error)

	// ClaimFanOuts leases up to c.Max fan-out jobs that are due, oldest first. A leased job is due
	// again when its lease has ended. Jobs of c.Except are left out.
	ClaimFanOuts(ctx context.Context, c ClaimFanOuts) ([]FanOut, error)

	// FanOut stores one chunk of a fan-out job and moves the job's cursor, in one transaction.
	//
	// If the job is gone, has another token than the chunk, or has another cursor than c.From, it
	// stores nothing and returns postrider.ErrFenced.
	// After the last chunk the job is deleted.
	FanOut(ctx context.Context, c FanOutChunk) error
}

// Publish is a group of batches for [Inbox.Publish].
type Publish struct {
	Version int64 // version of the subscriptions that matched the deliveries
	Batches []Batch
}

// Batch has the events that one caller published together. All of them are stored, or none.
type Batch []NewEvent

// NewEvent is an event to store, with its deliveries. The caller makes their ids.
type NewEvent struct {
	Event      postrider.Event // its Sequence is empty; the store sets it
	Deliveries []NewDelivery
	FanOutUpTo postrider.EndpointID // if not zero, the event gets a fan-out job for the endpoints up to this one
	Terms      []Term               // by which FindEvents finds the event, each once; at most MaxTerms
}

// NewDelivery is a delivery to store.
type NewDelivery struct {
	ID       postrider.DeliveryID
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	Wait     time.Duration   // the time until the delivery is due; zero: due at once
	Expiry   time.Duration   // the time until the delivery expires
	Token    postrider.Token // if not zero, the delivery is stored leased, as attempt 1
	Lease    time.Duration   // the length of the lease; used only with a Token
	Skipped  string          // the reason why the delivery is never queued; empty: it is queued
	Step     int             // 0, or postrider.StepFilterFailed; a delivery with a Step has no Token

	// Ordered puts the delivery into the order of its event's ordering key, which must not be empty.
	// The value says what happens to the key if the delivery becomes a dead letter. Empty: the
	// delivery has no order. An ordered delivery has no Token.
	Ordered postrider.OnDead
}

// Published is the result of one [Batch].
type Published struct {
	Events   []PublishedEvent       // nil if the batch was not stored
	Conflict int                    // index of the event whose key belongs to other content; -1: there is none
	Locked   *postrider.LockedError // set if another transaction locked a key of the batch for too long
}

// PublishedEvent is the result of one [NewEvent].
type PublishedEvent struct {
	ID        postrider.EventID // the id of the event; for a duplicate, that of the first event
	Duplicate bool
	Sequence  int64 // the sequence of the event in its ordering key, set by the store; 0 without a key
}

// ClaimFanOuts asks for fan-out jobs.
type ClaimFanOuts struct {
	Max    int
	Except []postrider.AccountID // whose jobs are not claimed
	Token  postrider.Token
	Lease  time.Duration
}

// FanOut is a leased fan-out job. The endpoints after Cursor and up to UpTo still need their
// deliveries of Event.
type FanOut struct {
	Event  postrider.Event
	UpTo   postrider.EndpointID // set by Publish
	Cursor postrider.EndpointID // moved by each chunk; zero before the first chunk
	Token  postrider.Token      // the token of the lease

	// AcceptedAt is the time of the transaction that stored Event, comparable with EndpointSnapshot.SubscribedAt.
	AcceptedAt time.Time
}

// FanOutChunk stores the deliveries of the endpoints after From and up to To, and moves the job's
// cursor from From to To.
type FanOutChunk struct {
	Event      postrider.EventID
	Token      postrider.Token
	From, To   postrider.EndpointID
	Deliveries []NewDelivery
	Done       bool          // whether this is the last chunk
	Lease      time.Duration // if not Done, the job's new lease under the same token
}

// Queue leases deliveries, settles their attempts, and stores the circuits of endpoints.
type Queue interface {
	// Claim leases deliveries that are due. For each want it leases up to N deliveries of the
	// endpoint and lane; those that have been due for longest come first.
	//
	// A delivery has one worker: while its lease lasts, no other claim returns it.
	// If a lease ended without a settlement, Claim takes the delivery over. The old attempt is
	// recorded as lost, with the Error "server_died" and no NextAt. Losses and the attempt's number
	// each grow by one.
	// StartedAt of a lost attempt is the time when the loss was noticed, here and in Reclaim and
	// Expire, because nobody knows when its request left.
	// If the Losses of the delivery then reach postrider.SuspectedAfter, Claim does not return the
	// delivery. It is due in the suspect lane, and the Suspects of its old lane count it. In the
	// suspect lane, deliveries are taken over without this limit.
	// Deliveries are claimed whatever the status of their endpoint is.
	// Items have their event; Data is nil if the bytes of the event were deleted.
	// Lanes has one state for each want, in the order of the wants.
	Claim(ctx context.Context, c Claim) (Claims, error)

	// Settle records attempts and carries out their transitions. It returns one result for each, in
	// their order.
	//
	// If the delivery has another token than the settlement, or none, the settlement is Stale. It is
	// recorded as a stale attempt and changes no delivery. The stale attempt has the StatusAfter pending and
	// no NextAt. It replaces a lost attempt with the same number.
	// Delivered and dead remove the delivery from the queue; a dead delivery gets a dead letter.
	// If an ordered delivery ends, the next head of its key is due at once, and Next is the lane of
	// that head. If the delivery is dead and pauses its key, there is no next head.
	// Pending ends the lease, and moves the delivery to the retry lane and to Transition.Step; a
	// delivery in the bulk lane stays there. It also sets Losses and the number of deaths as the
	// only suspect to 0.
	// A settlement that is repeated changes nothing and is not stale.
	// For an attempt that is InOneRow, the AcceptedHead is stored, and the head of the request is
	// not. If an earlier delivery has the same head, the head may be stored only with that delivery;
	// when that delivery is deleted, both lose the head.
	// If another transaction keeps the delivery or its ordering key locked, nothing is stored and
	// the result has Locked set.
	Settle(ctx context.Context, settlements []Settlement) ([]Settled, error)

	// Continue records an attempt that is followed at once by another attempt under the same lease,
	// with the next number. The delivery stays leased, at its step.
	// If the delivery has another token, or none, it stores nothing and returns postrider.ErrFenced.
	// StatusAfter is pending, and NextAt is now. Repeated, it changes nothing.
	Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) error

	// Release gives unused leases back: the delivery is due at once, and the number of its attempt
	// is free again. If a lease has been taken over or settled, Release changes nothing.
	Release(ctx context.Context, leases []Lease) error

	// MakeDue makes a pending delivery due at once, in its lane.
	//
	// With m.Parked the delivery must be parked, and its Losses and the number of its deaths as the
	// only suspect start from 0. If it is not parked, the error is postrider.ErrConflict.
	// Without m.Parked the delivery must wait for its first attempt or its retry. Its step and the
	// number of its attempt stay. If it has ended, is leased, parked or due, or waits for its
	// ordering key, the error is postrider.ErrConflict.
	MakeDue(ctx context.Context, m MakeDue) (postrider.Delivery, error)

	// Due lists the lanes with pending deliveries, and when the first delivery of each is due. A
	// leased delivery is due when its lease ends. The list is ordered by endpoint and has at most
	// d.Max endpoints after d.After.
	// With d.NewerThan only deliveries with a greater id are considered.
	// Ordered deliveries behind the head of their key are not considered, and neither are parked
	// ones.
	// With d.Count it also counts the deliveries of each lane, up to that number, in the order in
	// which they are due.
	Due(ctx context.Context, d Due) ([]DueLane, error)

	// PutCircuit stores a change of an endpoint's circuit, together with the endpoint's Retry-After.
	// It returns the stored circuit, whose Generation is one higher.
	//
	// If p.Circuit.Generation is not the stored one, it stores nothing and returns the stored
	// circuit with postrider.ErrConflict. The first change has the Generation 0. If the endpoint
	// does not exist or is deleted, the error is postrider.ErrNotFound.
	// With p.Announce it raises the version of the subscriptions, like a change of the endpoint, so
	// that every node reads the circuit.
	PutCircuit(ctx context.Context, p PutCircuit) (postrider.Circuit, error)

	// Circuits lists the circuits of endpoints after q.After, ordered by endpoint: at most q.Limit.
	// An endpoint whose circuit never changed is not in the list.
	Circuits(ctx context.Context, q CircuitQuery) ([]postrider.Circuit, error)

	// Clock returns the store's time as this process knows it.
	Clock() *Clock
}

// Directory keeps endpoints and their secrets.
type Directory interface {
	// PutEndpoint creates the endpoint if its Revision is 0. Otherwise it changes the endpoint,
	// whose stored Revision must be the same. It returns the stored endpoint, whose Revision is one
	// higher.
	//
	// If the stored revision is another one, or another endpoint of the account that is not deleted
	// has the uid, the error is postrider.ErrConflict.
	// A deleted endpoint cannot be changed: the error is postrider.ErrNotFound.
	// The secrets are added to the endpoint's secrets.
	// If Most is set and the account already has that many endpoints, no endpoint is created, and
	// the error is a *postrider.QuotaError. This holds for parallel calls too.
	// With CloseCircuit it also closes the endpoint's circuit in the same transaction, as a person
	// would.
	// The default kind is http. The kind never changes.
	// StatusSince is the time of the change that gave the endpoint its status.
	// If the endpoint has a PolicyError without ConditionFailed, the stored policy stays; otherwise it is
	// replaced.
	// FullSince stays as it is stored.
	// If the change gives the endpoint another Subscription, the old one is kept for Subscription.
	PutEndpoint(ctx context.Context, p PutEndpoint) (postrider.Endpoint, error)

	// Endpoints lists endpoints, newest first. Deleted endpoints are found only by ID and IDs. An
	// endpoint whose policy cannot be read has a PolicyError, here and in Changes; other endpoints
	// are not affected.
	Endpoints(ctx context.Context, q EndpointQuery) (Page[postrider.Endpoint], error)

	// Subscription returns the subscription that selected events for the endpoint at q.At, or, if the
	// endpoint was deleted by then, its last one. The time is compared with that of the transactions which
	// changed it.
	//
	// If q.At is before the endpoint was created, or DeleteOld or an expunge has removed the subscription of
	// that time, the error is postrider.ErrNotFound.
	Subscription(ctx context.Context, q SubscriptionQuery) (postrider.SubscriptionRevision, error)

	// PastSubscriptions returns the subscriptions that selected events for the endpoints at p.At, of those
	// endpoints that have another one now. It leaves out an endpoint whose subscription of that time is not
	// known, as Subscription does.
	//
	// Of a subscription that a newer program stored, it returns the part that this program can read.
	PastSubscriptions(ctx context.Context, p PastSubscriptions) (map[postrider.EndpointID]postrider.Subscription, error)

	// Secrets returns the unexpired secrets of the endpoints; for each endpoint the newest comes
	// first. An endpoint that does not exist has none.
	Secrets(ctx context.Context, endpoints ...postrider.EndpointID) ([]postrider.Secret, error)

	// RotateSecret adds a secret, and makes the other secrets expire after r.Overlap. A secret that
	// would expire earlier keeps its expiry.
	// Repeated with the same secret, it leaves that secret as it is.
	RotateSecret(ctx context.Context, r RotateSecret) error

	// RevokeSecret makes a secret expire now. If the endpoint does not have the secret, or the
	// secret has expired, or the endpoint is deleted, the error is postrider.ErrNotFound.
	// Each endpoint keeps a secret without an expiry. If no such secret would be left, the error is
	// postrider.ErrConflict.
	RevokeSecret(ctx context.Context, r RevokeSecret) error

	// PublicKeys lists the unexpired secrets that have a public key, newest first, without their
	// encrypted texts. Secrets of deleted endpoints are left out.
	PublicKeys(ctx context.Context, q PublicKeyQuery) (Page[postrider.Secret], error)

	// Changes returns up to limit endpoints that changed after the version since, as they are now,
	// in the order of their last change. It also returns the version up to which the result has all
	// changes.
	// Every PutEndpoint, RotateSecret and RevokeSecret raises the version by one. So do a PutHealth
	// that disables the endpoint, a PutCircuit with Announce, and a PutEventType or DeleteEventType
	// that changes paths. DeleteEndpoints and MarkFull raise it by one for each endpoint.
	// Deleted endpoints are included, unless since is 0.
	Changes(ctx context.Context, since int64, limit int) (Changes, error)
}

// PutEndpoint creates or changes an endpoint.
type PutEndpoint struct {
	Endpoint     postrider.Endpoint
	Secrets      []postrider.Secret
	CloseCircuit bool
	Most         int64 // greatest number of endpoints of the account; 0: no limit
}

// EndpointQuery filters endpoints; a zero field does not filter.
type EndpointQuery struct {
	Account postrider.AccountID
	ID      postrider.EndpointID
	IDs     []postrider.EndpointID // selects the endpoints with one of these ids
	UID     string                 // needs the Account
	Status  postrider.EndpointStatus
	// Circuit selects by the status of the circuit now ([postrider.Circuit.At]). A circuit that never changed counts as
	// closed.
	Circuit postrider.CircuitStatus
	Failing *bool // whether the stored circuit has a FailingSince; nil does not filter
	// Health selects by the last recorded status. An endpoint without a record counts as healthy.
	Health postrider.HealthStatus
	// Metadata selects the endpoints that have all of these keys, with these values. Deleted endpoints
	// are not found.
	Metadata postrider.Metadata
	Paging
}

// RotateSecret replaces an endpoint's secrets.
type RotateSecret struct {
	Secret  postrider.Secret
	Overlap time.Duration
}

// RevokeSecret ends one of an endpoint's secrets.
type RevokeSecret struct {
	Endpoint postrider.EndpointID
	Secret   postrider.SecretID
}

// PublicKeyQuery filters public keys; a zero field does not filter.
type PublicKeyQuery struct {
	Endpoint postrider.EndpointID
	Paging
}

// Changes are the endpoints that changed, the hold of the store, and the paths of event types.
type Changes struct {
	Version   int64
	Hold      postrider.Hold // hold of the store, at least as new as Version; zero: the store is not held
	Endpoints []EndpointSnapshot
	Paths     map[string][]string // by event type, at least as new as Version; nil: nothing changed since
}

// EndpointSnapshot has everything about an endpoint that matching and sending need.
type EndpointSnapshot struct {
	Endpoint postrider.Endpoint
	Secrets  []postrider.Secret // unexpired secrets, newest first
	Circuit  postrider.Circuit  // the current circuit, announced or not; zero: it never changed

	SubscribedAt time.Time // of the last change of its subscription; zero: it never changed

	// FilterFailed is set by a match: the condition of the endpoint could not be evaluated for the event.
	FilterFailed bool
}

// Access keeps accounts and API keys.
type Access interface {
	// PutAccount creates the account if its Revision is 0. Otherwise it changes the uid, name, metadata
	// and retention of the account, whose stored Revision must be the same. The stored Revision is then
	// one higher.
	//
	// If the stored revision is another one, or another account that is not deleted has the uid, the
	// error is postrider.ErrConflict.
	// A deleted account cannot be changed: the error is postrider.ErrNotFound.
	PutAccount(ctx context.Context, a postrider.Account) error

	// DeleteAccount deletes the account, revokes its API keys and sessions, and deletes its notice
	// destinations.
	// [Upkeep] deletes the endpoints of the account later. Its history stays. If the account does
	// not exist or is deleted, the error is postrider.ErrNotFound.
	DeleteAccount(ctx context.Context, account postrider.AccountID) error

	// Accounts lists accounts, newest first. A deleted account is found only by its ID.
	Accounts(ctx context.Context, q AccountQuery) (Page[postrider.Account], error)

	// PutKey creates an API key.
	PutKey(ctx context.Context, k postrider.APIKey) error

	// Keys lists API keys, newest first, with the revoked and expired ones.
	Keys(ctx context.Context, q KeyQuery) (Page[postrider.APIKey], error)

	// RevokeKey ends a key and the sessions that the key issued. If the key was revoked before, its
	// time of revocation stays.
	RevokeKey(ctx context.Context, key postrider.KeyID) error

	// TouchKey records the time at which a key was last used. The time never moves back.
	TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) error
}

// Catalogue keeps the catalogue of event types.
type Catalogue interface {
	// PutEventType creates the event type if its Revision is 0. Otherwise it changes the description, the
	// example and the paths of the event type, whose stored Revision must be the same. The stored
	// Revision is then one higher. A new path has the time of the change as its Since; the Since of other
	// paths stays.
	//
	// If the stored revision is another one, the error is postrider.ErrConflict. If there is no event type
	// to change, the error is postrider.ErrNotFound.
	PutEventType(ctx context.Context, t postrider.EventType) error

	// EventTypes lists event types, sorted by name, each with its paths sorted.
	EventTypes(ctx context.Context, q EventTypeQuery) (Page[postrider.EventType], error)

	// DeleteEventType deletes an event type from the catalogue.
	DeleteEventType(ctx context.Context, name string) error
}

// AccountQuery filters accounts; a zero field does not filter.
type AccountQuery struct {
	ID  postrider.AccountID
	UID string
	// Metadata selects the accounts that have all of these keys, with these values. Deleted accounts
	// are not found.
	Metadata postrider.Metadata
	// Retention selects the accounts that have a retention of their own, with the deleted ones. The
	// other fields must be zero.
	Retention bool
	Paging
}

// KeyQuery filters API keys; a zero field does not filter.
type KeyQuery struct {
	ID      postrider.KeyID
	Hash    [32]byte
	Account postrider.AccountID // selects the keys that are bound to this account
	Paging
}

// EventTypeQuery filters event types; a zero field does not filter.
type EventTypeQuery struct {
	Name string
	// Indexed selects the event types that have paths, without their descriptions and examples. The
	// Name must be empty.
	Indexed bool
	Paging
}

// Upkeep keeps a store in shape. Each method does a limited amount of work, and may be called at
// any time, on any node.
type Upkeep interface {
	// Expire turns up to limit pending deliveries whose expiry has passed into dead letters with the
	// reason expired. It does not change deliveries that a worker has leased. It returns the number of
	// expired deliveries. It also returns how many of their attempts it recorded as lost, because
	// their leases had ended.
	Expire(ctx context.Context, limit int) (expired, lost int, err error)

	// DeleteEndpoints deletes up to limit endpoints of deleted accounts, in the same way as
	// PutEndpoint. It returns the number of deleted endpoints.
	DeleteEndpoints(ctx context.Context, limit int) (int, error)

	// CancelDeleted cancels up to limit pending deliveries of deleted endpoints, each with a record.
	// It does not change deliveries that a worker has leased. They end with the result of their attempt.
	// It returns the number of cancelled deliveries, and how many of their attempts it recorded as
	// lost.
	CancelDeleted(ctx context.Context, limit int) (cancelled, lost int, err error)

	// ForgetKeys deletes up to limit idempotency keys that are older than age. It returns the number
	// of deleted keys.
	ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error)

	// MakePartitions creates the partitions of the coming days, if the store has partitions.
	MakePartitions(ctx context.Context) error
}

// Probes tell whether a store works.
type Probes interface {
	// CheckTables returns an error unless this program has made the tables, or a later program has
	// made them and allows this one to run beside it.
	CheckTables(ctx context.Context) error

	// ProbeWrite commits a row that no other method reads, in the same way as every other write. If
	// space is not 0 and the database is on another machine, the disk there must have room for that
	// many bytes; otherwise the error is ErrFull.
	ProbeWrite(ctx context.Context, space int) error
}

// Health keeps what the failures of endpoints have led to.
type Health interface {
	// HealthInputs returns the inputs of [postrider.HealthInput.Assess] for the endpoints whose
	// health may have to change. These are the endpoints that are not deleted and have a dead letter
	// of the last [postrider.HealthSpan], a failing circuit, or a health other than healthy. The
	// result is ordered by id and has at most limit endpoints after the given one.
	//
	// Deliveries are counted by the rollups of the minutes in which they ended. The minutes that
	// count began within HealthSpan and after the endpoint was last recorded as healthy. Deltas that
	// are not folded yet do not count.
	HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error)

	// PutHealth records a health of an endpoint. If the health is disabled, it also disables the
	// endpoint, for the same reason, in the same transaction. If an endpoint of this status must not
	// be disabled ([postrider.EndpointHealth.Disables]), nothing is recorded and the error is
	// postrider.ErrConflict. If Number is not the endpoint's next number, the error is
	// postrider.ErrConflict.
	// The notices of the change are stored in the same transaction, as PutNotices does.
	PutHealth(ctx context.Context, h postrider.EndpointHealth, notices ...postrider.Notice) error
}

// Time is the time of a store.
type Time interface {
	// Now returns the store's time of day, and corrects the Clock by it.
	Now(ctx context.Context) (time.Time, error)
}
