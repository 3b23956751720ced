package postrider

import (
	"cmp"
	"fmt"
	"time"
)

// Quotas limit what one account may use. In each field, 0 stands for the default of the server, and
// [NoQuota] for no limit.
type Quotas struct {
	// EventsPerSecond is how many events per second the account may publish on average. Burst is
	// how many it may publish at once; if it is not set, it is EventsPerSecond.
	EventsPerSecond, Burst int64
	// BytesPerDay is how many bytes of data the events of one day of UTC may have.
	BytesPerDay int64
	// Endpoints is how many endpoints the account may have.
	Endpoints int64
	// Backlog is how many deliveries may wait for one endpoint. When that many wait, new events are
	// skipped for the endpoint with [ReasonBacklogFull]; see [EndpointBacklog].
	Backlog int64
}

// NoQuota is the value of a quota without a limit.
const NoQuota = -1

// QuotaName is the name of a field of [Quotas].
type QuotaName string

// The quotas that refuse requests.
const (
	QuotaEvents    QuotaName = "events_per_second"
	QuotaBytes     QuotaName = "bytes_per_day"
	QuotaEndpoints QuotaName = "endpoints"
	// QuotaFilters is a per cent of a core for the filters of an account, on each node. It is the same
	// for all accounts.
	QuotaFilters QuotaName = "filter_percent"
)

// The greatest values of the quotas.
const (
	MaxQuotaEvents    = 1_000_000
	MaxQuotaBurst     = 10_000_000
	MaxQuotaBytes     = 1 << 50
	MaxQuotaEndpoints = 1_000_000
	MaxQuotaBacklog   = 1_000_000 // counting more would keep a database busy for seconds
)

// Check returns the faults of all fields, joined.
func (q Quotas) Check() error {
	var f faults
	within := func(field string, n, most int64) {
		if n != NoQuota {
			f.within(field, n, 0, most)
		}
	}
	within("events_per_second", q.EventsPerSecond, MaxQuotaEvents)
	within("burst", q.Burst, MaxQuotaBurst)
	within("bytes_per_day", q.BytesPerDay, MaxQuotaBytes)
	within("endpoints", q.Endpoints, MaxQuotaEndpoints)
	within("backlog", q.Backlog, MaxQuotaBacklog)
	return f.joined()
}

// Or returns the limits of an account with the quotas q if the server has the defaults d. In the
// result, 0 means no limit.
func (q Quotas) Or(d Quotas) Quotas {
	limit := func(own, usual int64) int64 { return max(0, cmp.Or(own, usual)) }
	e := Quotas{
		EventsPerSecond: limit(q.EventsPerSecond, d.EventsPerSecond),
		BytesPerDay:     limit(q.BytesPerDay, d.BytesPerDay),
		Endpoints:       limit(q.Endpoints, d.Endpoints),
		Backlog:         limit(q.Backlog, d.Backlog),
	}
	if e.EventsPerSecond > 0 { // the server's burst may not fit the account's own rate
		usual := d.Burst
		if q.EventsPerSecond > 0 {
			usual = 0
		}
		e.Burst = cmp.Or(limit(q.Burst, usual), e.EventsPerSecond)
	}
	return e
}

// QuotaUse is how much of its quotas an account has used, as far as the nodes have reported it.
type QuotaUse struct {
	Missing   float64   // how many events a burst has less than a full one now
	Bytes     int64     // bytes of data since the day began; 0 without a limit
	DayEnds   time.Time // when Bytes starts again from 0
	Endpoints int64     // endpoints that are not deleted
}

// EndpointBacklog is the backlog of an endpoint: how many deliveries wait for it, and the quota of
// its account. The store counts it. Every few seconds one node examines all of them and marks the
// endpoints whose backlog is full.
type EndpointBacklog struct {
	Endpoint EndpointID
	Account  AccountID
	Limit    int64     // quota of the account; 0: none
	Waiting  int64     // pending deliveries, including leased ones; counted up to Limit
	Full     time.Time // when it was marked as full; zero: it is not marked
}

// IsFull reports whether new events must be skipped for the endpoint. A full endpoint stays full
// until a tenth of its limit is free. Otherwise an endpoint that is a little slower than its events
// would be marked and unmarked at every count.
func (b EndpointBacklog) IsFull() bool {
	if b.Full.IsZero() || b.Limit == 0 {
		return b.Limit > 0 && b.Waiting >= b.Limit
	}
	return b.Waiting > b.Limit-max(1, b.Limit/10)
}

// QuotaError is an [ErrBusy]: an account has used up a quota. Nothing was stored.
type QuotaError struct {
	Account AccountID
	Quota   QuotaName
	Limit   int64
	// EndsAt is when the same request may succeed. Zero: only when the account uses less or gets a
	// higher quota.
	EndsAt     time.Time
	RetryAfter time.Duration // time until EndsAt
}

// Error names the quota and its limit.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota %s of the account, %d, is used up", e.Quota, e.Limit)
}

// Unwrap returns [ErrBusy].
func (e *QuotaError) Unwrap() error { return ErrBusy }
