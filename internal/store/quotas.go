package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Quotas keeps the quotas of accounts, and how much of them each account has used.
type Quotas interface {
	// PutQuotas replaces the quotas of an account, and raises the version of the subscriptions. If
	// the account does not exist or is deleted, the error is postrider.ErrNotFound.
	PutQuotas(ctx context.Context, account postrider.AccountID, q postrider.Quotas) error

	// Quotas lists the quotas that PutQuotas stored, in the order of their versions. An account
	// without quotas of its own is not in the list.
	Quotas(ctx context.Context, q QuotaQuery) ([]AccountQuotas, error)

	// SpendQuotas adds what accounts have used on this node. It returns what they have used on all
	// nodes, in the same order.
	// The number of events that an account may publish grows by its rate, up to its burst. Before
	// the first call it is the burst. It falls below 0 if the account has published more than it
	// had.
	// Bytes are counted by day, and start from 0 at midnight UTC.
	SpendQuotas(ctx context.Context, spends []QuotaSpend) ([]QuotaState, error)

	// QuotaUse returns how much of its quotas an account uses.
	QuotaUse(ctx context.Context, account postrider.AccountID) (postrider.QuotaUse, error)

	// EndpointBacklogs returns the backlogs of up to q.Max endpoints after q.After, ordered by
	// endpoint. It returns endpoints that have pending deliveries or are marked as full. The result
	// is empty if there are no more.
	//
	// Limit is the limit of the account, or q.Default if the account has none. Waiting is counted up
	// to the limit, and is 0 if there is no limit.
	// If no account has a limit, only endpoints that are marked are returned.
	// A deleted endpoint has only its id, and is left out if no delivery waits for it.
	// The result ends early, with the endpoint at which q.Count deliveries have been counted.
	EndpointBacklogs(ctx context.Context, q BacklogsQuery) ([]postrider.EndpointBacklog, error)

	// MarkFull marks endpoints as full, removes the mark from others, and raises the version of the
	// subscriptions once for each endpoint. In the same transaction it stores the notices as
	// PutNotices does, and returns the stored ones.
	//
	// An endpoint that is already marked keeps the time of its mark. An endpoint that is deleted or
	// does not exist is not changed.
	MarkFull(ctx context.Context, m MarkFull) ([]postrider.Notice, error)
}

// BacklogsQuery asks for the next backlogs.
type BacklogsQuery struct {
	After   postrider.EndpointID // endpoints up to this one are left out; zero: no endpoint
	Max     int                  // greatest number of endpoints
	Count   int64                // the call ends when it has counted this many pending deliveries of all endpoints together
	Default int64                // the limit of an account without one of its own; 0: no limit
}

// MarkFull says which endpoints are full, and which are no longer full.
type MarkFull struct {
	Full, Free []postrider.EndpointID
	Notices    []postrider.Notice
}

// QuotaDay returns the UTC day in which bytes are counted at the time wall, and the end of that
// day.
func QuotaDay(wall time.Time) (day, ends time.Time) {
	day = wall.UTC().Truncate(24 * time.Hour)
	return day, day.Add(24 * time.Hour)
}

// QuotaQuery filters quotas; a zero field does not filter.
type QuotaQuery struct {
	Account postrider.AccountID
	After   int64 // quotas up to this version are left out
	Limit   int   // 0: no limit
}

// AccountQuotas are the quotas of an account.
type AccountQuotas struct {
	Account postrider.AccountID
	Quotas  postrider.Quotas
	Version int64 // the version of the subscriptions that the last PutQuotas made
}

// QuotaSpend is what an account has used on one node since the node's last SpendQuotas.
type QuotaSpend struct {
	Account     postrider.AccountID
	Rate, Burst int64 // the account's limits, as the node knows them; 0: no limit
	Events      int64 // accepted events; below 0 if more were given back
	Asked       int64 // published events, with the refused ones
	Bytes       int64 // bytes of accepted events
}

// QuotaState is how much an account may use, and how much it has used on all nodes.
type QuotaState struct {
	Account postrider.AccountID
	Events  float64 // events that the account may publish at once; below 0 if it has published more than it had
	Asked   int64   // events that were published since the first call, with the refused ones
	Bytes   int64   // bytes of the day
}
