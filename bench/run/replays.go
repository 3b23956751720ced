package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

// old is the class of the deliveries that are replayed.
const old = "old"

// replayPace is the pace of a replay job, in deliveries a second. It is below the lowest pace of a
// busy node, so the server can keep it. The dead letters belong to ten endpoints.
const replayPace = 500

// replayOf replays n dead letters beside live events. Then it replays some more, and the server is
// killed in the middle of that.
func replayOf(e extent, n int) scenario {
	live := []load{ofB4}
	replay := time.Duration(n) * time.Second / replayPace
	fewer := n / 4
	return scenario{
		name: "B14 a replay of 100,000",
		setups: []setup{{
			distinct: true,
			groups:   []group{{class: good, endpoints: 1}, {class: old, endpoints: 10, diesAtOnce: true}},
			phases: []phase{
				{name: "without", lasts: e.lasting(60 * time.Second), loads: live},
				{name: "replay", lasts: replay, loads: live, ignored: []string{old}, before: deadLetters(n), during: replayAll(0)},
				{name: "killed", ignored: []string{old}, before: deadLetters(fewer), during: replayAll(replay / 8)},
			},
		}},
		figures: func(s shown) []figure {
			figures := isolation(good, pair{"without", "replay"})(s)
			return append(append(figures, s.replayed("replay", n)...), s.replayed("killed", fewer)...)
		},
		goals:   replayGoals(),
		goalsOn: replayGoals(),
	}
}

func replayGoals() goals {
	return goals{
		"replay: p99 ÷ without": atMost(1.25), "replay: rate ÷ pace": atLeast(0.98), "replay: missed": atMost(0),
		"replay: arrived twice": atMost(0), "replay: not made once": atMost(0), "killed: missed": atMost(0), "killed: not made once": atMost(0),
	}
}

// deadLetters makes n dead letters of the class old. Meanwhile their endpoints refuse each attempt.
func deadLetters(n int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		if err := w.sink.Answer(ctx, old, lab.Answer{Status: http.StatusBadRequest}); err != nil {
			return err
		}
		if err := w.publishAll(ctx, account, old, n); err != nil {
			return fmt.Errorf("publish what is to die: %w", err)
		}
		if err := w.untilNothingIsPending(ctx); err != nil {
			return err
		}
		return w.sink.Answer(ctx, old, lab.Answer{})
	}
}

// untilNothingIsPending waits until every delivery has ended.
func (w *environment) untilNothingIsPending(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		page, err := w.nodes[0].Client().Deliveries(ctx, client.DeliveryFilter{Status: postrider.Pending})
		if err == nil && len(page.Data) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait until nothing is pending: %w", errors.Join(ctx.Err(), err))
		}
		pause(ctx, 250*time.Millisecond)
	}
}

// replayAll replays all dead letters by one job, and waits until the job and its deliveries have
// ended. After the time killed, the server is killed and started again; 0: never.
func replayAll(killed time.Duration) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		server := w.nodes[0]
		job, err := server.Client().CreateReplay(ctx, apitypes.ReplayCreate{Account: account, PerSecond: new(replayPace)})
		if err != nil {
			return fmt.Errorf("create the replay: %w", err)
		}
		if killed > 0 {
			pause(ctx, killed)
			if err := errors.Join(server.Process().Kill(), server.Restart(ctx)); err != nil {
				return fmt.Errorf("kill the server: %w", err)
			}
		}
		waiting, cancel := context.WithTimeout(ctx, 20*time.Minute)
		defer cancel()
		for {
			r.replay, err = server.Client().Replay(waiting, job.ID)
			switch {
			case err != nil && waiting.Err() != nil:
				return fmt.Errorf("wait for the replay: %w", err)
			case err == nil && r.replay.EndedAt != nil && r.replay.Deliveries.Pending == 0:
				return nil
			}
			pause(waiting, 500*time.Millisecond)
		}
	}
}

// replayed returns how fast the n dead letters of a phase arrived again, and how many did not.
func (s shown) replayed(phase string, n int) []figure {
	r := s.readings[phase]
	sink, made := r.sinks[old], r.replay.Handled
	took := r.replay.EndedAt.Sub(r.replay.CreatedAt.Time)
	return []figure{
		{phase + ": made/s", "%.1f", float64(made) / took.Seconds()},
		{phase + ": replayed/s", "%.1f", s.drainRate(phase, old)},
		{phase + ": rate ÷ pace", "%.3f", s.drainRate(phase, old) / replayPace},
		count(phase+": missed", int64(n)-sink.Distinct),
		count(phase+": not made once", int64(max(made-n, n-made))),
		count(phase+": arrived twice", sink.Count-sink.Distinct),
	}
}
