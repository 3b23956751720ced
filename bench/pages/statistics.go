package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/internal/store"
)

// instant returns the SQL expression of a time.
func (h *history) instant(at time.Time) string {
	return h.fill.At(strconv.FormatInt(at.UnixMilli(), 10))
}

// fillTroubles makes the rows that the overview and the notices list: open circuits, and notices of
// the last days. The endpoints with open circuits have failed for less than six hours, after which
// a warning would be due. All notices count as read, so the server does not process them at its
// start.
func (h *history) fillTroubles(ctx context.Context) error {
	now := time.Now()
	begin := strconv.FormatInt(now.Add(-days*24*time.Hour).UnixMilli(), 10)
	err := h.copies(ctx, lab.Copies{
		Table: "circuits", Which: which(h, "endpoint", h.dead.Endpoint),
		Overrides: map[string]string{
			"endpoint": "e.id", "probe_at": h.instant(now.Add(6 * time.Hour)),
			"failing_since": h.fill.At(fmt.Sprintf("%d - e.n * 10000", now.Add(-time.Minute).UnixMilli())),
		},
		Source: fmt.Sprintf("(select n, id from targets where n < %d) e", failing),
	}, lab.Copies{
		Table: "notices", Which: "kind = '" + string(postrider.NoticeDisabled) + "'",
		Overrides: map[string]string{"id": h.fill.ID(begin+" + i * 1000", "i"), "occurrence": "'copy ' || i"},
		Source:    h.fill.Series(told, 1),
	})
	if err != nil {
		return err
	}
	return h.fill.Do(ctx, fmt.Sprintf("update circuits set failing_since = %s where endpoint = %s;\nupdate notices_published set last = %s",
		h.instant(now.Add(-time.Hour)), h.fill.Key(h.dead.Endpoint), h.fill.ID(strconv.FormatInt(now.UnixMilli(), 10), "0")))
}

// fillRollups makes statistics. For everything, for the account and for its endpoint it makes two
// days by minute, 90 days by hour and two years by day. For a thousand endpoints it makes the last
// day by minute and two days by hour. Everything has as many attempts a minute as the history; the
// account has a tenth of that, and the endpoint a hundredth.
//
// There is also a rollup of the present hour and of the present day. The stored positions
// say that the rollups contain all minutes and hours, so the server has nothing to roll up meanwhile.
func (h *history) fillRollups(ctx context.Context) error {
	if err := h.fill.Do(ctx, "delete from rollups where step > 0"); err != nil {
		return err
	}
	now := time.Now()
	rows := func(scope [16]byte, attempts int, step store.Step, source string) lab.Copies {
		length := step.Duration()
		c := h.rollup(attempts * int(length/time.Minute))
		c["step"] = strconv.Itoa(int(step))
		c["at"] = h.fill.Back(h.instant(now.Add(length)), int(length.Seconds()))
		if step == store.Minutes { // back from the newest rollup, which the server made
			c["at"] = h.fill.Back("base.at", 60)
		}
		return lab.Copies{
			Table: "rollups", Overrides: c, Source: source,
			Which: which(h, "scope", scope) + " and type = '' and step = 0 order by at desc",
		}
	}
	minute := max(100, h.attempts/days/24/60)
	var all []lab.Copies
	for _, s := range []struct {
		scope    [16]byte
		attempts int
	}{{[16]byte{}, minute}, {h.delivered.Account, minute / 10}, {h.delivered.Endpoint, minute / 100}} {
		for step, steps := range []int{2879, 2159, 729} {
			all = append(all, rows(s.scope, s.attempts, store.Step(step), h.fill.Series(steps, 1)))
		}
	}
	for step, steps := range []int{1439, 48} {
		of := rows(h.delivered.Endpoint, 1, store.Step(step), h.fill.Series(steps, 1)+" cross join (select id from targets where n < 1000) e")
		of.Overrides["scope"] = "e.id"
		all = append(all, of)
	}
	if err := h.copies(ctx, all...); err != nil {
		return err
	}
	return h.fill.Do(ctx, "update rollup_positions set at = "+h.instant(now))
}

// rollup returns the columns of a rollup with that many attempts. One of fifty is the last attempt
// of a delivery that dies, and one of twenty is retried. Responses take about 50 ms; the slowest of
// a thousand takes ten times as long. So the sketches are as large as real ones.
func (h *history) rollup(attempts int) map[string]string {
	var v store.RollupValue
	spread := rand.New(rand.NewPCG(1, 1))
	for i := range attempts {
		took := time.Duration(50 * math.Exp(0.75*spread.NormFloat64()) * float64(time.Millisecond))
		v.Responses.Add(took)
		switch {
		case i%deadIn == deadIn-1:
			v.Record(postrider.OutcomeRejected, 2, postrider.Dead)
		case i%20 == 10:
			v.Record(postrider.OutcomeRejected, 1, postrider.Pending)
		default:
			v.Record(postrider.OutcomeAccepted, 1, postrider.Delivered)
			v.Latencies.Add(took + 3*time.Millisecond)
		}
	}
	b := v.Bytes()
	return map[string]string{
		"counts": h.fill.Bytes(b.Counts), "responses": h.fill.Bytes(b.Responses), "latencies": h.fill.Bytes(b.Latencies),
		"delivered": strconv.FormatInt(v.Status(postrider.Delivered), 10), "dead": strconv.FormatInt(v.Status(postrider.Dead), 10),
	}
}
