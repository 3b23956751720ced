package janitor

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// sourceWatcher is the chore that tells operators of sources from which nothing is read, and of rejected
// rows. A source is told of if two rounds in a row find it stopped: after a pause, its last state is old
// until its reader writes the next one.
type sourceWatcher struct {
	reminder

	stopped map[postrider.SourceID]time.Time // what the last round found, with the beginning
}

// chunk looks at all sources. There are at most [store.MaxSources].
func (w *sourceWatcher) chunk(ctx context.Context) (did chunk, err error) {
	sources, err := w.store.Sources(ctx)
	if err != nil || len(sources) == 0 {
		return did, err
	}
	now, err := w.store.Now(ctx)
	if err != nil {
		return did, err
	}
	stopped := map[postrider.SourceID]time.Time{}
	for _, s := range sources {
		since := s.StoppedSince(now)
		_, before := w.stopped[s.ID]
		switch {
		case !since.IsZero():
			stopped[s.ID] = since
			if before {
				err = w.Janitor.tell(ctx, s.StoppedNotice(since))
			}
		case before && !s.Paused:
			err = w.recovered(ctx, s)
		}
		if err == nil && s.State.Rejected > 0 {
			err = w.tell(ctx, s.RejectedNotice(), now)
		}
		if err != nil {
			return did, err // the next round begins with the same sources
		}
	}
	w.stopped = stopped
	return did, nil
}

// recovered tells that a source is read again, if people were told that it had stopped.
func (w *sourceWatcher) recovered(ctx context.Context, s postrider.Source) error {
	last, err := w.store.Notices(ctx, store.NoticeQuery{
		Kind: postrider.NoticeSourceStopped, Object: s.ID.String(), Paging: store.Paging{Limit: 1},
	})
	if err != nil || len(last.Items) == 0 {
		return err
	}
	return w.Janitor.tell(ctx, s.RecoveredNotice(last.Items[0]))
}
