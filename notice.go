package postrider

import (
	"strconv"
	"time"
)

// Notice tells the owner of an account, or the operators, what they should know without
// having to look: an endpoint that fails, a replay job that has finished. The janitor and the
// replay jobs write notices; pages, e-mails and operational events show them. It never
// changes.
//
// There is one notice for each Kind, Object and Occurrence, whichever nodes saw the fact, and
// however often.
type Notice struct {
	ID         NoticeID  // carries the time of writing
	Account    AccountID // whose notice it is; zero: the installation's, which only operators see
	Kind       NoticeKind
	Object     string            // text of the id of the endpoint, replay job or account; of chore.failing the name of the chore, of disk kinds the folder of the store
	Occurrence string            // tells it from other notices of its kind and object
	Details    map[string]string // by name, see the constants of the kinds; may be nil
	CreatedAt  time.Time         // of the ID; stores set it
}

// NoticeKind says what a notice is about. The type of its operational event is
// OperationalPrefix and the kind.
type NoticeKind string

// The kinds, with the names of their Details. Times are RFC 3339.
const (
	// NoticeFailing: the endpoint was warned about. Details: reason (failing or
	// dead_letters), warnings (how many since it was healthy).
	NoticeFailing NoticeKind = "endpoint.failing"
	// NoticeDisabling: the same, and this was the last warning. Details: reason, warnings,
	// disabled_at (when it will be disabled, at the earliest).
	NoticeDisabling NoticeKind = "endpoint.disabling"
	// NoticeDisabled: the server has disabled the endpoint. Details: reason (failing,
	// dead_letters or gone), warnings.
	NoticeDisabled NoticeKind = "endpoint.disabled"
	// NoticeRecovered: an endpoint that was warned about is healthy again.
	NoticeRecovered NoticeKind = "endpoint.recovered"
	// NoticeCircuitOpen: the endpoint's circuit is not closed, and nothing has been accepted
	// for long. Details: reason (why it opened), failing_since.
	NoticeCircuitOpen NoticeKind = "endpoint.circuit_open"
	// NoticeBacklogFull: as many deliveries wait for the endpoint as its account may have, and
	// new events are skipped for it. Details: limit. At most one on a day of UTC.
	NoticeBacklogFull NoticeKind = "endpoint.backlog_full"
	// NoticeDeadLetters: many of the endpoint's deliveries died within 24 hours. Details:
	// count, limit. At most one in 24 hours.
	NoticeDeadLetters NoticeKind = "endpoint.dead_letters"
	// NoticeExpiring: the endpoint has dead letters that the server will soon discard,
	// because nobody has resolved them. Details: discarded_at (the first of them). At most
	// one in 7 days.
	NoticeExpiring NoticeKind = "endpoint.dead_letters_expiring"
	// NoticeExpired: the server discards such dead letters of the endpoint. Details:
	// created_before. At most one in 24 hours.
	NoticeExpired NoticeKind = "endpoint.dead_letters_expired"
	// NoticeReplay: a replay job has finished by itself. Details: status (done or failed),
	// action. The job has the numbers.
	NoticeReplay NoticeKind = "replay.finished"
	// NoticeChore: a chore of the server, such as one of retention, keeps failing. Details:
	// failing_since, error. At most one in 24 hours.
	NoticeChore NoticeKind = "chore.failing"
	// NoticeQuota: requests of the account were refused, because it has used up a quota.
	// Details: quota, limit, and of bytes_per_day ends_at. At most one on a day (UTC) of
	// each quota.
	NoticeQuota NoticeKind = "account.quota_used"
	// NoticeDiskFilling: the disk of the store is above [DiskWarned]. Details: used_percent.
	NoticeDiskFilling NoticeKind = "disk.filling"
	// NoticeDiskFull: it is above [DiskRefuses], so publishes are refused. Details:
	// used_percent.
	NoticeDiskFull NoticeKind = "disk.full"
	// NoticeDiskRecovered: after one of these it is below [DiskRecovered]. Details:
	// used_percent.
	NoticeDiskRecovered NoticeKind = "disk.recovered"
)

// NoticeKinds lists every kind.
var NoticeKinds = []NoticeKind{
	NoticeFailing, NoticeDisabling, NoticeDisabled, NoticeRecovered, NoticeCircuitOpen, NoticeBacklogFull, NoticeDeadLetters,
	NoticeExpiring, NoticeExpired, NoticeReplay, NoticeQuota, NoticeChore, NoticeDiskFilling, NoticeDiskFull, NoticeDiskRecovered,
}

// OfInstallation reports whether all notices of the kind are about the installation, so that
// only operators see them. Others may be, too: a replay job of several accounts.
func (k NoticeKind) OfInstallation() bool {
	switch k {
	case NoticeChore, NoticeDiskFilling, NoticeDiskFull, NoticeDiskRecovered:
		return true
	default:
		return false
	}
}

// EventType returns the type of the operational event of a notice.
func (k NoticeKind) EventType() string { return OperationalPrefix + string(k) }

// NoticeDelay is the age from which readers of notices may go by them: a reader remembers the
// last notice that it has handled, and ids order notices by their time. A notice that a slower
// transaction commits later than one with a greater id is older than that by less.
const NoticeDelay = 10 * time.Second

// Notice returns what the owner of the endpoint should know of a change of its health; false:
// nothing. was is the status before, and disabledAt when the endpoint will be disabled, zero:
// not soon. An endpoint that a person has enabled again needs no notice.
func (h EndpointHealth) Notice(was HealthStatus, disabledAt time.Time) (Notice, bool) {
	n := Notice{
		Account: h.Account, Object: h.Endpoint.String(), Occurrence: strconv.FormatInt(h.Number, 10),
		Details: map[string]string{"reason": h.Reason, "warnings": strconv.Itoa(h.Warnings)},
	}
	switch {
	case h.Status == HealthDisabled:
		n.Kind = NoticeDisabled
	case h.Status == HealthWarned && !disabledAt.IsZero():
		n.Kind = NoticeDisabling
		n.Details["disabled_at"] = noticeTime(disabledAt)
	case h.Status == HealthWarned:
		n.Kind = NoticeFailing
	case was == HealthWarned:
		n.Kind, n.Details = NoticeRecovered, nil
	default:
		return Notice{}, false
	}
	return n, true
}

// Notice returns what people should know of a circuit that has been failing for at least so
// long; false: nothing. The account is that of its endpoint. now is by the clock of the circuit,
// which is ahead of the time of day by so much: a step of the time of day neither begins nor
// ends an occurrence.
func (c Circuit) Notice(account AccountID, now time.Time, ahead, least time.Duration) (Notice, bool) {
	if c.Closed() || c.FailingSince.IsZero() || now.Sub(c.FailingSince) < least {
		return Notice{}, false
	}
	return Notice{
		Account: account, Kind: NoticeCircuitOpen, Object: c.Endpoint.String(), Occurrence: noticeTime(c.FailingSince),
		Details: map[string]string{"reason": c.Reason, "failing_since": noticeTime(c.FailingSince.Add(-ahead))},
	}, true
}

// Notice returns what people should know of an endpoint whose backlog has become full. An
// endpoint that fills and drains by turns has one a day.
func (b EndpointBacklog) Notice(now time.Time) Notice {
	return Notice{
		Account: b.Account, Kind: NoticeBacklogFull, Object: b.Endpoint.String(),
		Details: map[string]string{"limit": strconv.FormatInt(b.Limit, 10)},
	}.Every(24*time.Hour, now)
}

// Notice returns what people should know of the end of a job. A job without an account in its
// filter is for operators.
func (j ReplayJob) Notice(ended ReplayStatus) Notice {
	return Notice{
		Account: j.Filter.Account, Kind: NoticeReplay, Object: j.ID.String(),
		Details: map[string]string{"status": string(ended), "action": string(j.Action)},
	}
}

// Notice returns what people should know of a request that was refused at a time.
func (e *QuotaError) Notice(now time.Time) Notice {
	n := Notice{
		Account: e.Account, Kind: NoticeQuota, Object: e.Account.String(), Occurrence: string(e.Quota) + " " + now.UTC().Format(time.DateOnly),
		Details: map[string]string{"quota": string(e.Quota), "limit": strconv.FormatInt(e.Limit, 10)},
	}
	if e.Quota == QuotaBytes { // that of a rate ends within a moment
		n.Details["ends_at"] = noticeTime(e.EndsAt)
	}
	return n
}

// DiskUse is which part of the disk of a store is in use, 0 to 1; 0: it is not known.
type DiskUse float64

// The marks of a disk.
const (
	DiskWarned  DiskUse = .90 // above it, operators are told
	DiskRefuses DiskUse = .95 // above it, publishes are refused
	// DiskRecovered is the mark below which a disk that was above DiskWarned counts as
	// recovered. It is lower, so that a disk that stays about DiskWarned is told of once.
	DiskRecovered DiskUse = .85
)

// Notice returns what operators should know of the disk with a folder; false: nothing new. last
// is the last notice about it; zero: there was none. What begins above DiskWarned and ends
// below DiskRecovered is one occurrence: it has at most one notice of each kind.
func (u DiskUse) Notice(folder string, last Notice, now time.Time) (Notice, bool) {
	lasts := last.Kind == NoticeDiskFilling || last.Kind == NoticeDiskFull
	n := Notice{
		Object: folder, Occurrence: last.Occurrence,
		Details: map[string]string{"used_percent": strconv.FormatFloat(float64(u)*100, 'f', 1, 64)},
	}
	switch {
	case u > DiskRefuses && last.Kind != NoticeDiskFull:
		n.Kind = NoticeDiskFull
	case u > DiskWarned && !lasts:
		n.Kind = NoticeDiskFilling
	case u > 0 && u < DiskRecovered && lasts:
		n.Kind = NoticeDiskRecovered
	default:
		return Notice{}, false
	}
	if !lasts {
		n.Occurrence = noticeTime(now)
	}
	return n, true
}

// Every makes the notice one of a fact that lasts: each period has one at most.
func (n Notice) Every(period time.Duration, now time.Time) Notice {
	n.Occurrence = noticeTime(now.Truncate(period))
	return n
}

// noticeTime returns a time as the Details have it.
func noticeTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
