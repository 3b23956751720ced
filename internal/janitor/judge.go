package janitor

import (
	"context"
	"errors"
	"log/slog"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// judge records how endpoints stand, some at a time.
type judge struct {
	upkeep store.Upkeep
	opts   Options
	after  postrider.EndpointID // the last one judged in this round
}

// chunk judges the next endpoints, and says whether there may be more.
func (j *judge) chunk(ctx context.Context) (more bool, err error) {
	records, err := j.upkeep.Records(ctx, j.after, j.opts.Chunk)
	if err != nil {
		return false, err
	}
	now, err := j.upkeep.Now(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range records {
		standing, changed := r.Judge(now, *j.opts.Limits)
		if changed {
			if err := j.record(ctx, standing); err != nil {
				return false, err
			}
		}
		j.after = r.Endpoint
	}
	if len(records) < j.opts.Chunk {
		j.after = postrider.EndpointID{}
		return false, nil
	}
	return true, nil
}

// record records a standing, unless another node was faster, or a person, who
// may have deleted the endpoint: then the next round judges what is there.
func (j *judge) record(ctx context.Context, s postrider.Standing) error {
	err := j.upkeep.PutStanding(ctx, s)
	if errors.Is(err, postrider.ErrConflict) || errors.Is(err, postrider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if s.Status != postrider.StandingGood { // its owner has to do something
		level = slog.LevelWarn
	}
	j.opts.Log.Log(ctx, level, "endpoint standing changed",
		"endpoint", s.Endpoint.String(), "status", string(s.Status), "reason", s.Reason, "warnings", s.Warnings)
	j.opts.Observer.HealthChanged(s)
	return nil
}
