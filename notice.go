package postrider

import (
	"strconv"
	"time"
)

// Notice tells the owner of an account, or the operators, about something that needs their
// attention, such as an endpoint that fails or a replay job that has finished. The janitor and the
// replay jobs write notices. Pages, e-mails and operational events show them. A notice never
// changes.
//
// For each Kind, Object and Occurrence there is one notice, however many nodes see the fact, and
// however often.
type Notice struct {
	ID      NoticeID  // contains the time of writing
	Account AccountID // account whose owner sees the notice; zero: only operators see it
	Kind    NoticeKind
	// Id of the endpoint, replay job, account or source, as text; for chore.failing the name of the chore;
	// for the disk kinds the folder of the store.
	Object     string
	Occurrence string            // distinguishes the notice from others of its Kind and Object
	Details    map[string]string // by name; the constants of the kinds list the names; may be nil
	CreatedAt  time.Time         // the time in ID; set by the store
}

// NoticeKind says what a notice is about. Its operational event has the type OperationalPrefix
// followed by the kind.
type NoticeKind string

// The kinds, each with the names of its Details. Times are in RFC 3339.
const (
	// NoticeFailing: the endpoint was warned. Details: reason (failing or dead_letters), warnings
	// (number since it was healthy).
	NoticeFailing NoticeKind = "endpoint.failing"
	// NoticeDisabling: the endpoint was warned for the last time. Details: reason, warnings,
	// disabled_at (the earliest time at which it will be disabled).
	NoticeDisabling NoticeKind = "endpoint.disabling"
	// NoticeDisabled: the server has disabled the endpoint. Details: reason (failing,
	// dead_letters or gone), warnings.
	NoticeDisabled NoticeKind = "endpoint.disabled"
	// NoticeRecovered: a warned endpoint is healthy again.
	NoticeRecovered NoticeKind = "endpoint.recovered"
	// NoticeCircuitOpen: the endpoint's circuit is not closed, and the endpoint has accepted
	// nothing for long. Details: reason (why the circuit opened), failing_since.
	NoticeCircuitOpen NoticeKind = "endpoint.circuit_open"
	// NoticeBacklogFull: as many deliveries wait for the endpoint as its account's quota allows, so
	// new events are skipped for it. Details: limit. At most one per day of UTC.
	NoticeBacklogFull NoticeKind = "endpoint.backlog_full"
	// NoticeConditionFailed: the endpoint is set aside, because its condition could not be evaluated
	// for many events in a row.
	NoticeConditionFailed NoticeKind = "endpoint.condition_failed"
	// NoticeDeadLetters: many of the endpoint's deliveries died within 24 hours. Details: count,
	// limit. At most one per 24 hours.
	NoticeDeadLetters NoticeKind = "endpoint.dead_letters"
	// NoticeExpiring: the endpoint has dead letters that nobody has resolved and that the server
	// will soon discard. Details: discarded_at (of the first one). At most one per 7 days.
	NoticeExpiring NoticeKind = "endpoint.dead_letters_expiring"
	// NoticeExpired: the server discards dead letters of the endpoint that nobody has resolved.
	// Details: created_before. At most one per 24 hours.
	NoticeExpired NoticeKind = "endpoint.dead_letters_expired"
	// NoticeReplay: a replay job has ended, and no person ended it. Details: status (done or
	// failed), action. The job itself has the counts.
	NoticeReplay NoticeKind = "replay.finished"
	// NoticeChore: a chore of the server, such as one of retention, keeps failing. Details:
	// failing_since, error. At most one per 24 hours.
	NoticeChore NoticeKind = "chore.failing"
	// NoticeQuota: requests of the account were refused because a quota is used up. Details: quota,
	// limit, and for bytes_per_day also ends_at. At most one per quota and day of UTC.
	NoticeQuota NoticeKind = "account.quota_used"
	// NoticeDiskFilling: the disk of the store is above [DiskWarned]. Details: used_percent.
	NoticeDiskFilling NoticeKind = "disk.filling"
	// NoticeDiskFull: the disk is above [DiskRefuses], so publishes are refused. Details:
	// used_percent.
	NoticeDiskFull NoticeKind = "disk.full"
	// NoticeDiskRecovered: after NoticeDiskFilling or NoticeDiskFull, the disk is below
	// [DiskRecovered]. Details: used_percent.
	NoticeDiskRecovered NoticeKind = "disk.recovered"
	// NoticeSourceStopped: nothing is read from a source. Details: source (its name), failing_since. The
	// source has the error.
	NoticeSourceStopped NoticeKind = "source.stopped"
	// NoticeSourceRecovered: after NoticeSourceStopped, the source is read again. Details: source.
	NoticeSourceRecovered NoticeKind = "source.recovered"
	// NoticeSourceRejected: rows of a source were rejected and wait for a person. Details: source, rejected
	// (their number). At most one per 24 hours.
	NoticeSourceRejected NoticeKind = "source.rejected"
)

// NoticeKinds lists every kind.
var NoticeKinds = []NoticeKind{
	NoticeFailing, NoticeDisabling, NoticeDisabled, NoticeRecovered, NoticeCircuitOpen, NoticeBacklogFull,
	NoticeConditionFailed, NoticeDeadLetters, NoticeExpiring, NoticeExpired, NoticeReplay, NoticeQuota, NoticeChore,
	NoticeDiskFilling, NoticeDiskFull, NoticeDiskRecovered, NoticeSourceStopped, NoticeSourceRecovered, NoticeSourceRejected,
}

// OfInstallation reports whether every notice of the kind is about the installation, so that only
// operators see it. For other kinds, single notices can be for operators only, such as the notice
// of a replay job over several accounts.
func (k NoticeKind) OfInstallation() bool {
	switch k {
	case NoticeChore, NoticeDiskFilling, NoticeDiskFull, NoticeDiskRecovered, NoticeSourceStopped, NoticeSourceRecovered, NoticeSourceRejected:
		return true
	default:
		return false
	}
}

// EventType returns the type of the operational event for the kind.
func (k NoticeKind) EventType() string { return OperationalPrefix + string(k) }

// NoticeDelay is the age that a notice must have before a reader reads past it. A reader remembers
// the last notice that it handled, and ids order notices by time. A slow transaction may commit a
// notice after one with a higher id, but always less than NoticeDelay later.
const NoticeDelay = 10 * time.Second

// Notice returns the notice that a change of the endpoint's health needs; false: it needs none. was
// is the status before the change. disabledAt is when the endpoint will be disabled; zero: not
// soon. An endpoint that a person has enabled again needs no notice.
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

// Notice returns the notice of a circuit that has been seen to fail for at least the time least
// ([Circuit.FailedFor]); false: it needs none. account owns the endpoint of the circuit. The circuit's
// clock is ahead of the time of day by the duration ahead. Occurrence uses the circuit's clock too, so a
// step of the time of day neither begins nor ends an occurrence.
func (c Circuit) Notice(account AccountID, ahead, least time.Duration) (Notice, bool) {
	if c.Closed() || c.FailingSince.IsZero() || c.FailedFor() < least {
		return Notice{}, false
	}
	return Notice{
		Account: account, Kind: NoticeCircuitOpen, Object: c.Endpoint.String(), Occurrence: noticeTime(c.FailingSince),
		Details: map[string]string{"reason": c.Reason, "failing_since": noticeTime(c.FailingSince.Add(-ahead))},
	}, true
}

// Notice returns the notice of an endpoint whose backlog has become full. An endpoint that is full
// several times in a day has one notice that day.
func (b EndpointBacklog) Notice(now time.Time) Notice {
	return Notice{
		Account: b.Account, Kind: NoticeBacklogFull, Object: b.Endpoint.String(),
		Details: map[string]string{"limit": strconv.FormatInt(b.Limit, 10)},
	}.Every(24*time.Hour, now)
}

// Notice returns the notice of a job that has ended. If the job's filter names no account, the
// notice is for operators.
func (j ReplayJob) Notice(ended ReplayStatus) Notice {
	return Notice{
		Account: j.Filter.Account, Kind: NoticeReplay, Object: j.ID.String(),
		Details: map[string]string{"status": string(ended), "action": string(j.Action)},
	}
}

// Notice returns the notice of a request that was refused at the time now.
func (e *QuotaError) Notice(now time.Time) Notice {
	n := Notice{
		Account: e.Account, Kind: NoticeQuota, Object: e.Account.String(), Occurrence: string(e.Quota) + " " + now.UTC().Format(time.DateOnly),
		Details: map[string]string{"quota": string(e.Quota), "limit": strconv.FormatInt(e.Limit, 10)},
	}
	if e.Quota == QuotaBytes { // other quotas have no useful end: a rate limit ends within a moment
		n.Details["ends_at"] = noticeTime(e.EndsAt)
	}
	return n
}

// DiskUse is the used share of the disk of a store, from 0 to 1; 0: not known.
type DiskUse float64

// The limits of a disk.
const (
	DiskWarned  DiskUse = .90 // above it, operators get a notice
	DiskRefuses DiskUse = .95 // above it, publishes are refused
	// DiskRecovered is the limit below which a disk that was above DiskWarned counts as recovered.
	// It is lower than DiskWarned, so that a disk whose use varies around DiskWarned causes one
	// notice.
	DiskRecovered DiskUse = .85
)

// Notice returns the notice of the disk that has the folder; false: there is nothing new. last is
// the last notice about the disk; zero: there was none. An occurrence begins above DiskWarned and
// ends below DiskRecovered. It has at most one notice of each kind.
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

// sourceSilent is the age of the state of a source from which on nobody reads it. Its reader writes the state
// every 10 s, and another node takes the source over within 10 s.
const sourceSilent = time.Minute

// StoppedSince returns since when nothing is read from the source at the time now; zero: it is read, or a
// person has paused it.
func (s Source) StoppedSince(now time.Time) time.Time {
	at := s.State.At
	if at.Before(s.CreatedAt) {
		at = s.CreatedAt
	}
	switch {
	case s.Paused:
		return time.Time{}
	case s.State.Error != "":
		return s.State.ErrorSince
	case now.Sub(at) > sourceSilent:
		return at
	}
	return time.Time{}
}

// StoppedNotice returns the notice of a source from which nothing is read since the time.
func (s Source) StoppedNotice(since time.Time) Notice {
	return Notice{
		Kind: NoticeSourceStopped, Object: s.ID.String(), Occurrence: noticeTime(since),
		Details: map[string]string{"source": s.Name, "failing_since": noticeTime(since)},
	}
}

// RecoveredNotice returns the notice of a source that is read again, after the notice that it had stopped.
func (s Source) RecoveredNotice(stopped Notice) Notice {
	return Notice{
		Kind: NoticeSourceRecovered, Object: s.ID.String(), Occurrence: stopped.Occurrence, Details: map[string]string{"source": s.Name},
	}
}

// RejectedNotice returns the notice of a source with rejected rows.
func (s Source) RejectedNotice() Notice {
	return Notice{
		Kind: NoticeSourceRejected, Object: s.ID.String(),
		Details: map[string]string{"source": s.Name, "rejected": strconv.FormatInt(s.State.Rejected, 10)},
	}
}

// Every limits the notice to one in each period. It is for a fact that lasts.
func (n Notice) Every(period time.Duration, now time.Time) Notice {
	n.Occurrence = noticeTime(now.Truncate(period))
	return n
}

// noticeTime returns a time in the format of Details.
func noticeTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
