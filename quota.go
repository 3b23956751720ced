package postrider

import (
	"cmp"
	"fmt"
	"time"
)

// Quotas limit what one account may use. Of each field 0 stands for the default of the
// server, and [NoQuota] for no limit.
type Quotas struct {
	// EventsPerSecond is how many events the account may publish in a second, on
	// average; Burst is how many at once. Without a Burst it is EventsPerSecond.
	EventsPerSecond, Burst int64
	// BytesPerDay is how many bytes of data the events of a day may have; the day is
	// UTC's.
	BytesPerDay int64
	// Endpoints is how many endpoints the account may have.
	Endpoints int64
	// Backlog is how many deliveries may wait for one endpoint. From then on new events
	// are skipped for it, with [ReasonBacklogFull]; see [EndpointBacklog].
	Backlog int64
}

// NoQuota is the value of a quota that limits nothing.
const NoQuota = -1

// QuotaName names one of the [Quotas].
type QuotaName string

// The quotas that refuse requests.
const (
	QuotaEvents    QuotaName = "events_per_second"
	QuotaBytes     QuotaName = "bytes_per_day"
	QuotaEndpoints QuotaName = "endpoints"
)

// The greatest values of the quotas.
const (
	MaxQuotaEvents    = 1_000_000
	MaxQuotaBurst     = 10_000_000
	MaxQuotaBytes     = 1 << 50
	MaxQuotaEndpoints = 1_000_000
	MaxQuotaBacklog   = 1_000_000 // counting more would take a database seconds
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

// Or returns what holds for an account with the quotas q where the defaults of the server
// are d: of each field a limit, or 0, for none.
func (q Quotas) Or(d Quotas) Quotas {
	limit := func(own, usual int64) int64 { return max(0, cmp.Or(own, usual)) }
	e := Quotas{
		EventsPerSecond: limit(q.EventsPerSecond, d.EventsPerSecond),
		BytesPerDay:     limit(q.BytesPerDay, d.BytesPerDay),
		Endpoints:       limit(q.Endpoints, d.Endpoints),
		Backlog:         limit(q.Backlog, d.Backlog),
	}
	if e.EventsPerSecond > 0 { // a burst of the server's may not fit an account's own rate
		usual := d.Burst
		if q.EventsPerSecond > 0 {
			usual = 0
		}
		e.Burst = cmp.Or(limit(q.Burst, usual), e.EventsPerSecond)
	}
	return e
}

// QuotaUse is what an account uses of its quotas, as far as the nodes have reported it.
type QuotaUse struct {
	Missing   float64   // events that it may publish less than a full burst at once now
	Bytes     int64     // of data, since the day began; 0 without a limit
	DayEnds   time.Time // when Bytes begins anew
	Endpoints int64     // that are not deleted
}

// EndpointBacklog is what waits for an endpoint, beside the quota of its account. The store
// counts it; one node looks at all of them every few seconds and marks those that are full.
type EndpointBacklog struct {
	Endpoint EndpointID
	Account  AccountID
	Limit    int64     // the account's; 0: none
	Waiting  int64     // pending deliveries, leased ones too; counted up to the Limit
	Full     time.Time // since when it is marked as full; zero: it is not
}

// IsFull reports whether new events are to be skipped for the endpoint. An endpoint that is
// full stays so until a tenth of its limit is free, so that one that is a little slower than
// its events is not marked anew with every count.
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
	// EndsAt is when the same request may succeed; zero: only after the account uses
	// less, or gets a greater quota.
	EndsAt     time.Time
	RetryAfter time.Duration // until EndsAt
}

// Error names the quota and its limit.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota %s of the account, %d, is used up", e.Quota, e.Limit)
}

// Unwrap returns [ErrBusy].
func (e *QuotaError) Unwrap() error { return ErrBusy }
