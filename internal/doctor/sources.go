package doctor

import "time"

// Source describes the outbox of a producer from which events are read.
type Source struct {
	Name     string
	Database string // connection string, without the password
	Paused   bool
	Own      bool  // it is a table of the producer's own
	Err      error // why its database cannot be used; nil: it can, and the fields below are known

	Version       int           // of the schema of the outbox
	Waiting       int64         // number of rows that wait, about
	Lag           time.Duration // age of the oldest waiting row
	Open          time.Duration // age of the oldest open transaction
	AsyncReplicas int
}

const (
	// laggingSource is the age of the oldest waiting row from which on a source lags. A reader that works
	// leaves no row for more than a second, unless the account of the row has used up a quota.
	laggingSource = time.Minute
	// longTransaction is the age of an open transaction that lets the dead rows of the outbox pile up.
	longTransaction = 10 * time.Minute
)

// Checks judges the source.
func (s Source) Checks() []Check {
	if s.Err != nil {
		return []Check{Failure(SourceConnect, "%s (%s): %s", s.Name, s.Database, s.Err).
			Change("do what it says, or give all flags again: postrider sources put %s. Its rows wait until then, and nothing is lost", s.Name)}
	}
	checks := []Check{Okay(SourceConnect, "%s (%s) can be read; its outbox has version %d", s.Name, s.Database, s.Version)}
	if s.Own {
		checks = []Check{Warning(SourceConnect, "%s (%s) can be read; it is a table of the producer's own, whose rows are deleted once they are read. "+
			"If a restore or failover of the store loses their events, nothing can read them again, or tell how many", s.Name, s.Database).
			Change("where that must not be, publish by postrider.publish: postrider outbox install")}
	}
	rows := count(int(s.Waiting), "row", "rows") + " waiting"
	if s.Own { // only a server knows which of them it has rejected
		rows += " or rejected"
	}
	lag := Okay(SourceLag, "%s: %s", s.Name, rows)
	if s.Lag > laggingSource && !s.Paused {
		lag = Warning(SourceLag, "%s: %s, the oldest for %s", s.Name, rows, s.Lag.Round(time.Second)).
			Change("see whether a server runs, and why it does not read: postrider sources get %s", s.Name)
	}
	open := Okay(SourceTransaction, "%s: no transaction of its database is open for long", s.Name)
	if s.Open > longTransaction {
		open = Warning(SourceTransaction, "%s: a transaction of its database is open for %s, so rows that were read cannot be vacuumed", s.Name,
			s.Open.Round(time.Second)).Change("end it: select pid, query from pg_stat_activity order by xact_start limit 1")
	}
	replicas := Okay(SourceReplicas, "%s: its database has no asynchronous replica", s.Name)
	if s.AsyncReplicas > 0 {
		replicas = Warning(SourceReplicas, "%s: its database has %s; after a failover to one, webhooks may have been sent for transactions that are lost",
			s.Name, count(s.AsyncReplicas, "asynchronous replica", "asynchronous replicas")).
			Change("fail over to a synchronous replica only: synchronous_standby_names")
	}
	return append(checks, lag, open, replicas)
}
