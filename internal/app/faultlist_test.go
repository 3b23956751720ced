package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

type change = func(ctx context.Context, in *installation)

// failing has the first n receivers do something.
func failing(n int, does postrider.Attempt) change {
	return responding(func(from *simulated, i int, c *postrider.Claimed) postrider.Attempt {
		if i < n {
			return does
		}
		return usual(from, i, c)
	})
}

func responding(r receivers) change {
	return func(_ context.Context, in *installation) { in.set(func() { in.respond = r }) }
}

// diskUsed has a part of the disk be in use.
func diskUsed(used float64) change {
	return func(_ context.Context, in *installation) { in.set(func() { in.disk = used }) }
}

// meets has the last n servers meet trouble when they call the store.
func meets(n int, meet func(verb string) trouble) change {
	return func(_ context.Context, in *installation) {
		for _, s := range in.servers[len(in.servers)-n:] {
			s.way.set(meet)
		}
	}
}

// someVerbs makes only the named verbs of the store fail.
func someVerbs(t trouble, verbs ...string) func(string) trouble {
	return func(verb string) trouble {
		if slices.Contains(verbs, verb) {
			return t
		}
		return trouble{}
	}
}

// skewed has the store's clock be ahead of the machine's.
func skewed(by time.Duration) change {
	return func(_ context.Context, in *installation) {
		for _, s := range in.servers {
			s.way.mu.Lock()
			s.way.skew = by
			s.way.mu.Unlock()
		}
	}
}

func killLast(_ context.Context, in *installation)  { in.servers[len(in.servers)-1].kill() }
func startLast(_ context.Context, in *installation) { in.servers[len(in.servers)-1].start() }

var (
	refuses     = responds(http.StatusInternalServerError, 20*time.Millisecond)
	errReadOnly = fmt.Errorf("%w: the store is read-only", postrider.ErrBusy)
	errAway     = fmt.Errorf("%w: the store is away", postrider.ErrBusy)
	errBroken   = errors.New("the store answers nonsense")

	reads = strings.Fields("Due Circuits Changes Endpoints Accounts Keys Notices NoticesPublished Portal Rollups Backlog OldRows CheckTables HealthInputs Now Held Expunges ArchiveDay DeadLetters Members")
)

func notWritable(verb string) trouble {
	if slices.Contains(reads, verb) {
		return trouble{}
	}
	return trouble{err: errReadOnly}
}

// silent does not answer. The call that a lock is held for fails instead: virtual time stands still
// while somebody waits for a lock.
func silent(verb string) trouble {
	if verb == "Changes" {
		return trouble{err: errAway}
	}
	return trouble{hangs: true}
}

// outage is a fault of n of all endpoints. Each endpoint gets an event every two minutes. If there
// are a thousand endpoints or more, each gets one every 20 minutes, because the recording would
// otherwise take hours.
func outage(n, all int, does postrider.Attempt) fault {
	f, rare := fault{endpoints: all, begin: failing(n, does), every: 2 * time.Minute / time.Duration(all)}, ""
	if all >= 1000 {
		f.every, rare = f.every*10, ", each with an event in every 20 min"
	}
	what, title := "500", "answer 500"
	if does.Outcome == "" {
		what, title = "hang", "hang"
	}
	f.name = fmt.Sprintf("outage-%d-of-%d-%s", n, all, what)
	f.title = fmt.Sprintf("%d of %d endpoints %s%s", n, all, title, rare)
	return f
}

// deadly kills each server that attempts the first delivery to the first endpoint, and has it
// started again.
func deadly(ctx context.Context, in *installation) {
	var killer postrider.DeliveryID
	responding(func(from *simulated, i int, c *postrider.Claimed) postrider.Attempt {
		if i > 0 || !killer.IsZero() && c.ID != killer {
			return usual(from, i, c)
		}
		killer = c.ID
		from.kill()
		in.running.Go(func() {
			batch.Sleep(ctx, 10*time.Second)
			from.start()
		})
		return hangs
	})(ctx, in)
}

// tellSlack makes a destination that cannot be reached.
func tellSlack(ctx context.Context, in *installation) {
	now := time.Now()
	err := in.store.PutDestination(ctx, postrider.Destination{
		ID: store.NewID[postrider.DestinationID](in.ids), Channel: postrider.ChannelSlack, Address: "https://127.0.0.1:1/", Language: "en",
		CreatedAt: now, ConfirmedAt: now,
	}, 100)
	if err != nil {
		in.t.Error(err)
	}
	diskUsed(.93)(ctx, in)
}

// restart restarts the servers in turn, as a deployment does.
func restart(ctx context.Context, in *installation) {
	in.running.Go(func() {
		for _, s := range in.servers {
			s.end()
			batch.Sleep(ctx, 20*time.Second)
			s.start()
			batch.Sleep(ctx, 40*time.Second)
		}
	})
}

// usualDays are days on which the servers have no fault. One customer is slow, another is dead, and
// a third refuses one event in fifty. Each day one more endpoint fails for 20 minutes, the servers
// are restarted in turn, the store does not respond for 20 s, 500 events come at once, and a backup
// is made.
func usualDays(ctx context.Context, in *installation) {
	failing := -1
	responding(func(from *simulated, i int, c *postrider.Claimed) postrider.Attempt {
		switch {
		case i == 5:
			return responds(http.StatusOK, 5*time.Second)
		case i == 6:
			return hangs
		case i == failing || i == 7 && c.ID[15]%50 == 0:
			return refuses
		}
		return usual(from, i, c)
	})(ctx, in)
	in.running.Go(func() {
		for day := 0; ctx.Err() == nil; day++ {
			for _, step := range []struct {
				after time.Duration
				do    func()
			}{
				{3 * time.Hour, func() { in.set(func() { in.backup.SucceededAt = time.Now() }) }},
				{6 * time.Hour, func() { in.set(func() { failing = 8 + day%10 }) }},
				{20 * time.Minute, func() { in.set(func() { failing = -1 }) }},
				{3 * time.Hour, func() { restart(ctx, in) }},
				{3 * time.Hour, func() { meets(1, silent)(ctx, in) }},
				{20 * time.Second, func() { meets(1, nil)(ctx, in) }},
				{3 * time.Hour, func() {
					for n := range 500 {
						in.running.Go(func() { in.publish(n, n%len(in.index)) })
					}
				}},
				{5*time.Hour + 39*time.Minute + 40*time.Second, func() {}},
			} {
				if !batch.Sleep(ctx, step.after) {
					return
				}
				step.do()
			}
		}
	})
}

// with starts the server again with more flags.
func with(flags ...string) change {
	return func(_ context.Context, in *installation) {
		in.flags = append(in.flags, flags...)
		for _, s := range in.servers {
			s.end()
			s.start()
		}
	}
}

var faults = []fault{
	outage(1, 1, refuses), outage(1, 1, hangs), outage(15, 15, refuses), outage(15, 15, hangs),
	outage(30, 30, refuses), outage(30, 30, hangs),
	outage(5, 15, refuses), outage(5, 15, hangs), outage(10, 30, refuses), outage(10, 30, hangs),
	outage(1, 30, refuses), outage(1, 30, hangs),
	outage(1000, 1000, refuses), outage(1000, 1000, hangs),
	{
		name: "half-for-12-h", title: "15 of 30 endpoints answer 500 for 12 h", every: 20 * time.Second, lasts: 12 * time.Hour,
		length: 16 * time.Hour,
		sample: 5 * time.Minute, begin: failing(15, refuses),
	},
	{name: "store-not-writable", title: "the store is read-only for 1 h", lasts: time.Hour, begin: meets(1, notWritable), end: meets(1, nil)},
	{name: "store-away", title: "the store does not answer for 1 h", lasts: time.Hour, begin: meets(1, silent), end: meets(1, nil)},
	{
		name: "store-refuses", title: "the store refuses connections for 1 h", lasts: time.Hour,
		begin: meets(1, func(string) trouble { return trouble{err: errAway} }), end: meets(1, nil),
	},
	{
		name: "store-slow", title: "commits take 0.8 s for 1 h", lasts: time.Hour,
		begin: meets(1, someVerbs(trouble{takes: 800 * time.Millisecond}, "Publish")), end: meets(1, nil),
	},
	{
		name: "harmless-store-blip", title: "the store does not answer for 1 min", lasts: time.Minute, begin: meets(1, silent),
		end: meets(1, nil),
	},
	{
		name: "settle-fails", title: "no attempt can be recorded for 1 h", lasts: time.Hour,
		begin: meets(1, someVerbs(trouble{err: errBroken}, "Settle")), end: meets(1, nil),
	},
	{
		name: "server-killed", title: "the only server is killed, and started after 1 h", lasts: time.Hour, length: 2 * time.Hour,
		begin: killLast, end: startLast,
	},
	{
		name: "one-of-three-killed", title: "one of 3 servers is killed, and started after 1 h", servers: 3, lasts: time.Hour, begin: killLast,
		end: startLast,
	},
	{
		name: "one-of-three-read-only", title: "one of 3 servers cannot write for 1 h", servers: 3, lasts: time.Hour,
		begin: meets(1, notWritable), end: meets(1, nil),
	},
	{
		name: "no-heartbeats", title: "the heartbeats of all 3 servers fail for 1 h", servers: 3, lasts: time.Hour,
		begin: meets(3, someVerbs(trouble{err: errBroken}, "Heartbeat")), end: meets(3, nil),
	},
	{
		name: "clock-1-min", title: "the clock is off by 1 min for 1 h", lasts: time.Hour, length: 2 * time.Hour, begin: skewed(time.Minute),
		end: skewed(0),
	},
	{
		name: "clock-10-min", title: "the clock is off by 10 min for 1 h", lasts: time.Hour, length: 2 * time.Hour,
		begin: skewed(10 * time.Minute), end: skewed(0),
	},
	{
		name: "disk-85", title: "85 % of the disk is in use for 1 h", lasts: time.Hour, length: 2 * time.Hour, begin: diskUsed(.85),
		end: diskUsed(.4),
	},
	{
		name: "disk-93", title: "93 % of the disk is in use for 1 h", lasts: time.Hour, length: 2 * time.Hour, begin: diskUsed(.93),
		end: diskUsed(.4),
	},
	{
		name: "disk-97", title: "97 % of the disk is in use for 1 h", lasts: time.Hour, length: 2 * time.Hour, begin: diskUsed(.97),
		end: diskUsed(.4),
	},
	{
		name: "backup-fails", title: "backups fail for 1 h", lasts: time.Hour, length: 2 * time.Hour,
		begin: func(_ context.Context, in *installation) { in.set(func() { in.backup.Failing = true }) },
		end:   func(_ context.Context, in *installation) { in.set(func() { in.backup.Failing = false }) },
	},
	{
		name: "retention-fails", title: "no old row can be deleted for 2 h", lasts: 2 * time.Hour, length: 3 * time.Hour,
		begin: meets(1, someVerbs(trouble{err: errBroken}, "DeleteOld")), end: meets(1, nil),
	},
	{
		name: "archive-fails", title: "the archive fails for 2 h", lasts: 2 * time.Hour, length: 3 * time.Hour,
		flags: []string{"--archive=file:///nowhere"},
		begin: meets(1, someVerbs(trouble{err: errBroken}, "ArchiveDay", "LeaseArchive")), end: meets(1, nil),
	},
	{
		name: "chore-fails", title: "expired deliveries cannot be ended for 2 h", lasts: 2 * time.Hour, length: 3 * time.Hour,
		begin: meets(1, someVerbs(trouble{err: errBroken}, "Expire")), end: meets(1, nil),
	},
	{name: "slack-away", title: "the disk fills, and Slack is away", length: 2 * time.Hour, begin: tellSlack},
	{
		name: "collector-away", title: "the collector of traces is away", length: 2 * time.Hour,
		begin: with("--otlp-url=http://127.0.0.1:1", "--trace-sample=1"),
	},
	{
		name: "expunge-list", title: "the list of expunges cannot be written", length: 2 * time.Hour,
		begin: with("--expunge-list=/nowhere/list"),
	},
	{name: "deadly-event", title: "an event kills each server that attempts it", servers: 2, length: 2 * time.Hour, begin: deadly},
	{
		name: "restored", title: "a restored store is resumed after 1 h", lasts: time.Hour,
		begin: func(ctx context.Context, in *installation) { _, _ = in.store.PutHold(ctx, "restored") },
		end:   func(ctx context.Context, in *installation) { _, _ = in.store.Resume(ctx) },
	},
	{
		name: "descriptors", title: "the server has no descriptors for 1 h", lasts: time.Hour,
		begin: responding(func(*simulated, int, *postrider.Claimed) postrider.Attempt {
			return postrider.Attempt{Outcome: postrider.OutcomePostponed, Error: string(postrider.FailureDescriptors)}
		}),
	},
	{
		name: "backlog-full", title: "one of 30 endpoints hangs for 2 h, and its backlog gets full", every: 200 * time.Millisecond,
		lasts: 2 * time.Hour, flags: []string{"--quota-backlog=300"}, begin: failing(1, hangs),
	},
	{
		name: "panic", title: "one attempt panics",
		begin: responding(func(from *simulated, i int, c *postrider.Claimed) postrider.Attempt {
			from.in.respond = usual
			panic("a mistake of the program")
		}),
	},
	{
		name: "dead-letters", title: "one of 2 endpoints refuses 1 event a second for good", endpoints: 2, every: 500 * time.Millisecond,
		flags: []string{"--warn-dead-percent=100", "--disable-dead-percent=100"},
		policy: func(_ int, p *postrider.Policy) {
			p.ClientErrors, p.Circuit = postrider.DeadLetterClientErrors, postrider.CircuitPresets["never"]
		},
		begin: failing(1, responds(http.StatusBadRequest, 20*time.Millisecond)),
	},
	{
		name: "harmless-days", title: "ten usual days", endpoints: 20, every: 12 * time.Second, length: 240*time.Hour - before,
		sample: 5 * time.Minute,
		begin:  usualDays,
	},
	{name: "harmless-deployment", title: "3 servers are restarted in turn", servers: 3, begin: restart},
}
