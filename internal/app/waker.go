package app

import (
	"context"
	"log/slog"
	"sync"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/ingest"
)

// waker carries the API's news of endpoints to where they count: the index
// learns the changes, and then the dispatcher looks at the endpoints. News are
// a set: none is dropped, and many cost one refresh.
type waker struct {
	index      *ingest.Index
	dispatcher *dispatch.Dispatcher
	log        *slog.Logger
	some       chan struct{} // holds one when there are news

	mu   sync.Mutex
	news map[postrider.EndpointID]struct{}
}

func newWaker(index *ingest.Index, dispatcher *dispatch.Dispatcher, log *slog.Logger) *waker {
	return &waker{
		index: index, dispatcher: dispatcher, log: log,
		some: make(chan struct{}, 1), news: map[postrider.EndpointID]struct{}{},
	}
}

// Wake says that there is news of the endpoint. It never waits.
func (w *waker) Wake(endpoint postrider.EndpointID) {
	w.mu.Lock()
	w.news[endpoint] = struct{}{}
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default: // Run will see this one, too
	}
}

// take returns all the news there are, and leaves none.
func (w *waker) take() map[postrider.EndpointID]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.news
	w.news = map[postrider.EndpointID]struct{}{}
	return taken
}

// Run carries news until ctx ends. Where the index cannot be refreshed, the
// dispatcher looks all the same, and the index's own poll makes up for it.
func (w *waker) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.some:
		}
		endpoints := w.take() // before the refresh, which so covers them all
		if err := w.index.Refresh(ctx); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "subscriptions not refreshed", "error", err)
		}
		for endpoint := range endpoints {
			w.dispatcher.Wake(endpoint)
		}
	}
}
