package app

import (
	"context"
	"log/slog"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/ingest"
)

// waker carries the API's news of an endpoint to where it counts: the index
// learns the change, and then the dispatcher looks at the endpoint.
type waker struct {
	index      *ingest.Index
	dispatcher *dispatch.Dispatcher
	log        *slog.Logger
	news       chan postrider.EndpointID
}

func newWaker(index *ingest.Index, dispatcher *dispatch.Dispatcher, log *slog.Logger) *waker {
	return &waker{index: index, dispatcher: dispatcher, log: log, news: make(chan postrider.EndpointID, 256)}
}

// Wake says that there is news of the endpoint. It never waits: where the news
// come faster than they are carried, the index's poll finds what is dropped.
func (w *waker) Wake(endpoint postrider.EndpointID) {
	select {
	case w.news <- endpoint:
	default:
	}
}

// Run carries news until ctx ends.
func (w *waker) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case endpoint := <-w.news:
			if err := w.index.Refresh(ctx); err != nil && ctx.Err() == nil {
				w.log.WarnContext(ctx, "subscriptions not refreshed", "error", err)
			}
			w.dispatcher.Wake(endpoint)
		}
	}
}
