// Package store says what a store of events and deliveries must do.
//
// A [Store] has these roles, each for one part of the program: [Inbox] for ingest,
// [Queue] for dispatch, [Directory], [Access], [Sessions], [Audit], [PortalSettings] and
// [Catalogue] for the API, [Destinations] for the API and for messages, [Encryption] for secrets, [Ledger] and [Finder] for the history that people look at,
// [Rollups] for its numbers, [Replays] for replay jobs, [Quotas] for what accounts may use, [Upkeep], [Retention] and [Expunges] for the janitor,
// [Archive] and [Restored] for the archive, [Notices] for what people should be told, [Holding] for a store that was restored.
// Stores that several nodes can share have one more, [Nodes]. Every method is one
// transaction: it happens whole or not at all, and is on disk when it returns. No method
// returns a transaction.
//
// Three packages implement the roles: memory, sqlite and postgres. Package storetest
// tests each of them against the sentences of these comments.
// This package also has what all stores share: ids, the clock, documents of policies,
// pages and cursors, and the rule of idempotency keys (keys.go).
//
// For every method of every store this holds:
//
//   - Times are UTC microseconds by the store's [Clock]: Now decides what is due,
//     leased or expired, and Wall is what people see. Waits are durations, which the
//     store adds to its own Now.
//   - An object that does not exist, or belongs to another account, is
//     [postrider.ErrNotFound].
//   - A store that cannot be reached, is read-only or too busy returns [postrider.ErrBusy], and
//     ErrFull if its disk is full. Nothing was stored then. If the reply to a commit was lost, the
//     store looks whether it was stored; only if that fails too, the caller cannot know it.
//   - Methods may be called from any goroutine. A store does not keep slices and
//     bytes that were passed in, and those that it returns belong to the caller.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
)

// Store is every role at once.
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
	Holding
	Retention
	Notices
	Quotas
	Archive
	Restored
	Expunges

	// Close ends the store. Calls under way finish first.
	Close() error
}

// ErrMoved says that subscriptions changed after the deliveries of a [Publish]
// were matched.
var ErrMoved = errors.New("subscriptions moved on")

// ErrFull says that the disk of the store is full. It is a [postrider.ErrBusy].
var ErrFull = fmt.Errorf("the disk is full: %w", postrider.ErrBusy)

// Inbox stores published events.
type Inbox interface {
	// Publish stores the batches in one transaction. It returns one result for
	// each, in their order.
	//
	// It stores nothing and returns ErrMoved unless p.Version is the version of
	// the subscriptions, read after Publish was called.
	// A batch is stored whole or not at all: when one of its idempotency keys
	// belongs to other content, Conflict is that event's index, and none of the
	// batch is stored; other batches are not affected.
	// A batch with a key that another transaction keeps locked is not stored: it is Locked.
	// An event whose idempotency key belongs to the same content is a Duplicate
	// with the first event's id; its deliveries are not stored. That holds inside
	// one call and across any number of parallel ones.
	// An event with an ordering key gets the next Sequence of its account and
	// key: from 1, without gaps, in the order of commits.
	// A delivery with a Token is stored leased, one without waits, one with
	// Skipped is recorded as skipped with that reason and never queued.
	// Of the pending deliveries with Ordered of one endpoint and ordering key only the
	// head, which has the lowest sequence, is ever due; while the key is paused, none is.
	// A head that is due stays the head until it ends, even if a replay job adds deliveries
	// with lower sequences.
	// An event with FanOutUpTo gets a fan-out job instead of deliveries.
	// A publish repeated with the same ids, after its reply was lost, stores
	// nothing twice and returns the same result.
	Publish(ctx context.Context, p Publish) ([]Published, error)

	// ClaimFanOuts leases up to c.Max fan-out jobs that are due, oldest first.
	// A job leased before is due again when that lease has ended.
	ClaimFanOuts(ctx context.Context, c ClaimFanOuts) ([]FanOut, error)

	// FanOut stores one chunk of a fan-out job and moves the job's cursor, in
	// one transaction.
	//
	// It stores nothing and returns postrider.ErrFenced unless the job still
	// has the chunk's token and its cursor is at c.From.
	// After the last chunk the job is gone.
	FanOut(ctx context.Context, c FanOutChunk) error
}

// Publish is a group of batches for [Inbox.Publish].
type Publish struct {
	Version int64 // of the subscriptions that the deliveries were matched with
	Batches []Batch
}

// Batch is what one caller published at once: all or nothing.
type Batch []NewEvent

// NewEvent is an event to store with its deliveries. Ids are made before.
type NewEvent struct {
	Event      postrider.Event // without a Sequence, which the store assigns
	Deliveries []NewDelivery
	FanOutUpTo postrider.EndpointID // not zero: a fan-out job for endpoints up to this one
}

// NewDelivery is a delivery to store.
type NewDelivery struct {
	ID       postrider.DeliveryID
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	Wait     time.Duration   // until it is due; zero: at once
	Expiry   time.Duration   // until it expires
	Token    postrider.Token // not zero: it is stored leased, as attempt 1
	Lease    time.Duration   // the length of that lease; used only with a Token
	Skipped  string          // the reason why it is never queued; empty: it is queued

	// Ordered puts the delivery into the order of its event's ordering key, which
	// must not be empty, and says what happens to the key if it becomes a dead
	// letter. Empty: it has no order. An ordered delivery has no Token.
	Ordered postrider.OnDead
}

// Published is the result of one [Batch].
type Published struct {
	Events   []PublishedEvent       // nil when the batch was not stored
	Conflict int                    // index of the event whose key belongs to other content; -1: none
	Locked   *postrider.LockedError // another transaction has a key of the batch for too long; nil: none has
}

// PublishedEvent is the result of one [NewEvent].
type PublishedEvent struct {
	ID        postrider.EventID // of a duplicate, the first event's
	Duplicate bool
	Sequence  int64 // in its ordering key, assigned by the store; 0: it has no key
}

// ClaimFanOuts asks for fan-out jobs.
type ClaimFanOuts struct {
	Max   int
	Token postrider.Token
	Lease time.Duration
}

// FanOut is a fan-out job under a lease: the endpoints after Cursor and up to
// UpTo still need their deliveries of Event.
type FanOut struct {
	Event  postrider.Event
	UpTo   postrider.EndpointID // set by Publish
	Cursor postrider.EndpointID // moved by each chunk; zero: no chunk is stored
	Token  postrider.Token      // of the lease
}

// FanOutChunk moves a job's cursor From one endpoint To another and stores the
// deliveries of the endpoints between.
type FanOutChunk struct {
	Event      postrider.EventID
	Token      postrider.Token
	From, To   postrider.EndpointID
	Deliveries []NewDelivery
	Done       bool          // this was the last chunk
	Lease      time.Duration // not Done: the job's new lease, under the same token
}

// Queue leases deliveries, settles their attempts, and stores the circuits of their
// endpoints.
type Queue interface {
	// Claim leases deliveries that are due: of each want's endpoint and lane up
	// to N, the longest due first.
	//
	// A delivery has one worker: two claims never return the same delivery while
	// the first one's lease lasts.
	// A lease that ended without a settlement is taken over: the old attempt is
	// recorded as lost, with the Error "server_died" and no NextAt; Losses grows by
	// one, and so does the attempt's number.
	// StartedAt of a lost attempt is when the loss was noticed, here as in Reclaim
	// and Expire, because nobody knows when its request left.
	// A delivery whose Losses reach postrider.SuspectedAfter by that is not
	// returned: it is due in the suspect lane, and its old lane's Suspects counts
	// it. In the suspect lane a lease that ended is taken over like any other.
	// Rows of an endpoint are claimed whatever the endpoint's status is.
	// Items carry their event; its Data is nil when the bytes are gone.
	// Each want has its state in Lanes, in the order of the wants.
	Claim(ctx context.Context, c Claim) (Claims, error)

	// Settle records attempts and carries out their transitions. It returns one
	// result for each, in their order.
	//
	// A settlement counts only while the delivery has its token: else it is
	// Stale, is recorded as a stale attempt, and changes no delivery. Its
	// StatusAfter is pending, and it has no NextAt. A stale attempt takes the
	// place of the lost one of the same number.
	// Delivered and dead end the row; a dead delivery gets a dead letter.
	// If an ordered delivery ends, the next head of its key is due at once, unless
	// the delivery is dead and pauses its key; Next is the lane of that head.
	// Pending frees the lease, moves the delivery to the retry lane (bulk stays
	// bulk) and to Transition.Step, and sets only Losses and the deaths to 0.
	// Settled again, a settlement changes nothing and is not stale.
	// Of an attempt that is InOneRow, AcceptedHead is kept and the head of the request is not. If
	// an earlier delivery has the same head, only that one may keep it: both lose it when it is deleted.
	// If another transaction keeps the delivery or its ordering key locked, nothing is stored: it is Locked.
	Settle(ctx context.Context, settlements []Settlement) ([]Settled, error)

	// Continue records an attempt after which another one follows at once under the same
	// lease, with the next number. The delivery stays leased, at its step.
	// It stores nothing and returns postrider.ErrFenced unless the delivery has its token.
	// StatusAfter is pending, and NextAt is now. Repeated, it changes nothing.
	Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) error

	// Release gives leases back unused: the delivery is due at once and its
	// attempt's number is free again. A lease that has been taken over or settled
	// is left alone.
	Release(ctx context.Context, leases []Lease) error

	// MakeDue makes a pending delivery due at once, in its lane.
	//
	// With m.Parked it is a parked one, whose Losses and deaths alone are counted
	// from 0 then; one that is not parked is postrider.ErrConflict.
	// Else it is one that waits for its first attempt or its retry. Its step and
	// the number of its attempt stay. One that has ended, that is leased, parked
	// or due, or that waits for its ordering key is postrider.ErrConflict.
	MakeDue(ctx context.Context, m MakeDue) (postrider.Delivery, error)

	// Due lists the lanes in which a delivery waits, and when the first one of each is
	// due, leases that end included, ordered by endpoint: at most d.Max
	// endpoints after d.After.
	// With d.NewerThan only deliveries with a greater id are looked at.
	// Ordered deliveries behind the head of their key are not looked at, nor are
	// parked ones.
	// With d.Count it also counts each lane's deliveries, up to that many, those that
	// are due first.
	Due(ctx context.Context, d Due) ([]DueLane, error)

	// PutCircuit stores a change of an endpoint's circuit, with what the endpoint
	// asked for, and returns it as stored, Generation one higher.
	//
	// It stores nothing, and returns the circuit as it is with
	// postrider.ErrConflict, unless p.Circuit.Generation is the stored one's; the
	// first change has 0. An endpoint that does not exist, or is deleted, is
	// postrider.ErrNotFound.
	// With p.Announce it raises the version of the subscriptions, like a change
	// of the endpoint, so that every node reads it.
	PutCircuit(ctx context.Context, p PutCircuit) (postrider.Circuit, error)

	// Circuits lists circuits, ordered by endpoint, from the one after q.After:
	// at most q.Limit. An endpoint whose circuit never changed has none.
	Circuits(ctx context.Context, q CircuitQuery) ([]postrider.Circuit, error)

	// Clock returns the store's time as this process knows it.
	Clock() *Clock
}

// Directory keeps endpoints and their secrets.
type Directory interface {
	// PutEndpoint creates the endpoint when its Revision is 0, and else changes
	// the one whose Revision is the same; it returns the endpoint as stored,
	// Revision one higher.
	//
	// Another revision, or a uid that another endpoint of the account has that
	// is not deleted, is postrider.ErrConflict.
	// An endpoint that is deleted stays so: postrider.ErrNotFound.
	// Secrets are added to those that the endpoint has.
	// With Most, an account that has that many endpoints gets no new one, and the error is
	// a *postrider.QuotaError, also for parallel calls.
	// With CloseCircuit it closes the endpoint's circuit in the same transaction,
	// as a person does who closes it.
	// The kind is http where none is given, and never changes.
	// StatusSince is the time of the change that gave the endpoint its status.
	// With a PolicyError it leaves the stored policy, without one it replaces it.
	// FullSince stays as it is stored.
	PutEndpoint(ctx context.Context, p PutEndpoint) (postrider.Endpoint, error)

	// Endpoints lists endpoints, newest first. Deleted ones are not listed,
	// but found by ID and by IDs. One whose policy cannot be read has a PolicyError, here
	// and in Changes, and others are not affected.
	Endpoints(ctx context.Context, q EndpointQuery) (Page[postrider.Endpoint], error)

	// Secrets returns the secrets of the endpoints that have not expired, of each
	// endpoint the newest first; none for an endpoint that does not exist.
	Secrets(ctx context.Context, endpoints ...postrider.EndpointID) ([]postrider.Secret, error)

	// RotateSecret adds a secret and lets the others expire after r.Overlap,
	// or before, if they were to.
	// Repeated with the same secret, it leaves that secret as it is.
	RotateSecret(ctx context.Context, r RotateSecret) error

	// RevokeSecret lets a secret expire now. One that is unknown to the endpoint,
	// or has expired, is postrider.ErrNotFound, as is any of a deleted endpoint.
	// It is postrider.ErrConflict where no other secret would be left, or only
	// secrets that are to expire: each endpoint keeps a secret that lasts.
	RevokeSecret(ctx context.Context, r RevokeSecret) error

	// PublicKeys lists the unexpired secrets that have a public key and belong to
	// an endpoint that is not deleted, newest first, without their encrypted
	// texts.
	PublicKeys(ctx context.Context, q PublicKeyQuery) (Page[postrider.Secret], error)

	// Changes returns the endpoints that changed after the version since, as
	// they are now, in the order of their last change: at most limit, and the
	// version up to which that is all of it. Every PutEndpoint, RotateSecret and
	// RevokeSecret raises the version by one; so does PutHealth, where it
	// disables, PutCircuit, where it announces, and DeleteEndpoints and MarkFull, for
	// each endpoint.
	// Deleted endpoints are among them, unless since is 0.
	Changes(ctx context.Context, since int64, limit int) (Changes, error)
}

// PutEndpoint creates or changes an endpoint.
type PutEndpoint struct {
	Endpoint     postrider.Endpoint
	Secrets      []postrider.Secret
	CloseCircuit bool
	Most         int64 // endpoints that the account may have; 0: any number
}

// EndpointQuery filters endpoints; a zero field does not filter.
type EndpointQuery struct {
	Account postrider.AccountID
	ID      postrider.EndpointID
	IDs     []postrider.EndpointID // any of them
	UID     string                 // with Account
	Status  postrider.EndpointStatus
	// Circuit selects by the status of the stored circuit; one that never changed is
	// closed.
	Circuit postrider.CircuitStatus
	Failing *bool // whether the stored circuit has a FailingSince; nil: no filter
	// Health selects by the status that was recorded last; without a record it is
	// healthy.
	Health postrider.HealthStatus
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

// Changes are endpoints that changed.
type Changes struct {
	Version   int64
	Hold      postrider.Hold // of the store, at least as new as Version; zero: it is not held
	Endpoints []EndpointSnapshot
}

// EndpointSnapshot is all that matching and sending need to know of an endpoint.
type EndpointSnapshot struct {
	Endpoint postrider.Endpoint
	Secrets  []postrider.Secret // not expired, newest first
	Circuit  postrider.Circuit  // as it is now, announced or not; zero: it never changed
}

// Access keeps accounts and API keys.
type Access interface {
	// PutAccount creates the account, or changes the uid, name and retention of the one
	// with this id. A uid that another account has that is not deleted is
	// postrider.ErrConflict.
	// An account that is deleted stays so: postrider.ErrNotFound.
	PutAccount(ctx context.Context, a postrider.Account) error

	// DeleteAccount deletes the account, revokes its API keys and its sessions, and deletes
	// its notice destinations.
	// Its endpoints are for [Upkeep] to delete; its history stays. An account that does not
	// exist, or is deleted, is postrider.ErrNotFound.
	DeleteAccount(ctx context.Context, account postrider.AccountID) error

	// Accounts lists accounts, newest first. Deleted ones are found by ID only.
	Accounts(ctx context.Context, q AccountQuery) (Page[postrider.Account], error)

	// PutKey creates an API key.
	PutKey(ctx context.Context, k postrider.APIKey) error

	// Keys lists API keys, revoked and expired ones too, newest first.
	Keys(ctx context.Context, q KeyQuery) (Page[postrider.APIKey], error)

	// RevokeKey ends a key and the sessions that it issued. A key that was revoked
	// keeps its time of revocation.
	RevokeKey(ctx context.Context, key postrider.KeyID) error

	// TouchKey notes when a key was last used. The time never moves back.
	TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) error
}

// Catalogue keeps the catalogue of event types.
type Catalogue interface {
	// PutEventType creates the event type or changes its description and example.
	PutEventType(ctx context.Context, t postrider.EventType) error

	// EventTypes lists event types by name.
	EventTypes(ctx context.Context, q EventTypeQuery) (Page[postrider.EventType], error)

	// DeleteEventType takes an event type out of the catalogue.
	DeleteEventType(ctx context.Context, name string) error
}

// AccountQuery filters accounts; a zero field does not filter.
type AccountQuery struct {
	ID  postrider.AccountID
	UID string
	// Retention selects the accounts that have a retention of their own, deleted ones too. The
	// other fields must be zero.
	Retention bool
	Paging
}

// KeyQuery filters API keys; a zero field does not filter.
type KeyQuery struct {
	ID      postrider.KeyID
	Hash    [32]byte
	Account postrider.AccountID // bound to this account
	Paging
}

// EventTypeQuery filters event types; a zero field does not filter.
type EventTypeQuery struct {
	Name string
	Paging
}

// Upkeep keeps a store in shape. Its methods do a bounded piece of work and
// may be called at any time, on any node.
type Upkeep interface {
	// Expire turns up to limit pending deliveries whose time is over, and that
	// no worker holds, into dead letters with the reason expired, and returns
	// how many, and how many of their attempts it recorded as lost, because
	// their leases had ended.
	Expire(ctx context.Context, limit int) (expired, lost int, err error)

	// DeleteEndpoints deletes up to limit endpoints of deleted accounts, each as
	// PutEndpoint would, and returns how many.
	DeleteEndpoints(ctx context.Context, limit int) (int, error)

	// CancelDeleted cancels up to limit pending deliveries of deleted endpoints that no
	// worker holds, with a record each, and returns how many, and how many of their attempts
	// it recorded as lost. What a worker holds gets the result of its attempt.
	CancelDeleted(ctx context.Context, limit int) (cancelled, lost int, err error)

	// ForgetKeys deletes up to limit idempotency keys older than age and
	// returns how many.
	ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error)

	// MakePartitions makes the partitions of the coming days, if the store has any.
	MakePartitions(ctx context.Context) error

	// CheckTables returns an error if the tables are no longer those of this program, or
	// of a later one that allows this one beside it.
	CheckTables(ctx context.Context) error

	// ProbeWrite commits a write as every other is committed, of a row that no
	// other method reads. If space is not 0, it is ErrFull unless the disk of a
	// database on another machine has that many bytes of room.
	ProbeWrite(ctx context.Context, space int) error

	// HealthInputs returns what [postrider.HealthInput.Assess] needs of the
	// endpoints that may have to change: those that are not deleted and have a
	// dead letter of the last [postrider.HealthSpan], a circuit that has been
	// failing, or a health that is not healthy. They are ordered by id, at most
	// limit after the given one.
	//
	// Deliveries are counted by the rollups of the minutes in which they ended: of
	// those minutes that began within HealthSpan, and after the endpoint was last
	// recorded as healthy. Deltas that are not folded yet do not count.
	HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error)

	// PutHealth records a health. One that is disabled disables the endpoint, for
	// its reason, in the same transaction; if it may not disable an endpoint of
	// this status ([postrider.EndpointHealth.Disables]), nothing is recorded and it
	// returns postrider.ErrConflict. A Number that is
	// not the endpoint's next is postrider.ErrConflict.
	// The notices of the change are stored in the same transaction, as PutNotices does.
	PutHealth(ctx context.Context, h postrider.EndpointHealth, notices ...postrider.Notice) error

	// Now returns the store's time of day, and corrects the Clock by it.
	Now(ctx context.Context) (time.Time, error)
}
