package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Quotas keeps what accounts may use, and what they use.
type Quotas interface {
	// PutQuotas replaces the quotas of an account, and raises the version of the
	// subscriptions. An account that does not exist, or is deleted, is
	// postrider.ErrNotFound.
	PutQuotas(ctx context.Context, account postrider.AccountID, q postrider.Quotas) error

	// Quotas lists the quotas that were put, in the order of their versions; an account
	// without quotas of its own is not among them.
	Quotas(ctx context.Context, q QuotaQuery) ([]AccountQuotas, error)

	// SpendQuotas adds what accounts have used on this node, and returns what all nodes
	// have used, in the same order.
	// The events that an account may publish grow by its rate up to its burst, and are
	// the burst before the first call. They fall below 0 if more was spent than there was.
	// Bytes begin anew with each day of UTC.
	SpendQuotas(ctx context.Context, spends []QuotaSpend) ([]QuotaState, error)

	// QuotaUse returns what an account uses.
	QuotaUse(ctx context.Context, account postrider.AccountID) (postrider.QuotaUse, error)

	// EndpointBacklogs returns the backlogs of the next endpoints after q.After that have
	// pending deliveries or are marked as full, ordered by endpoint: at most q.Max. It returns
	// none if there are no more.
	//
	// The Limit is the account's own, or else q.Default. Waiting stops at it, and is 0 where
	// there is none.
	// Where no account has a limit, endpoints that are not marked are left out.
	// A deleted endpoint has nothing but its id, and is left out where nothing waits for it.
	// It ends with the endpoint at which q.Count deliveries are counted.
	EndpointBacklogs(ctx context.Context, q BacklogsQuery) ([]postrider.EndpointBacklog, error)

	// MarkFull marks endpoints as full, and takes the mark from others, with a version of the
	// subscriptions for each. It returns the notices that are stored, as PutNotices does, in
	// the same transaction.
	//
	// An endpoint that is marked keeps the time since when. One that is deleted, or does not
	// exist, is left alone.
	MarkFull(ctx context.Context, m MarkFull) ([]postrider.Notice, error)
}

// BacklogsQuery asks for the next backlogs.
type BacklogsQuery struct {
	After   postrider.EndpointID // zero: from the first endpoint
	Max     int                  // endpoints
	Count   int64                // pending deliveries of all of them together, after which the call ends
	Default int64                // limit of accounts without one of their own; 0: none
}

// MarkFull says which endpoints are full, and which are not any more.
type MarkFull struct {
	Full, Free []postrider.EndpointID
	Notices    []postrider.Notice
}

// QuotaDay returns the day of UTC to which the bytes of a time count, and when it ends.
func QuotaDay(wall time.Time) (day, ends time.Time) {
	day = wall.UTC().Truncate(24 * time.Hour)
	return day, day.Add(24 * time.Hour)
}

// QuotaQuery filters quotas; a zero field does not filter.
type QuotaQuery struct {
	Account postrider.AccountID
	After   int64 // the version
	Limit   int   // 0: no limit
}

// AccountQuotas are the quotas of an account.
type AccountQuotas struct {
	Account postrider.AccountID
	Quotas  postrider.Quotas
	Version int64 // of the subscriptions, which the last PutQuotas raised
}

// QuotaSpend is what an account has used on one node since the node's last call.
type QuotaSpend struct {
	Account     postrider.AccountID
	Rate, Burst int64 // the account's limits as the node knows them; 0: none
	Events      int64 // that were accepted; below 0: more were returned
	Asked       int64 // events that were published, those that were refused among them
	Bytes       int64 // of accepted events
}

// QuotaState is what an account may use, and what it has used on all nodes.
type QuotaState struct {
	Account postrider.AccountID
	Events  float64 // that it may publish at once; below 0: it has overdrawn
	Asked   int64   // events that were published since the first call
	Bytes   int64   // of the day
}
