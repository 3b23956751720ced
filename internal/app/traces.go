package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/traces"
)

// newTracer returns what records spans. nil: nothing does.
func (a *App) newTracer() *traces.Tracer {
	if a.config.OTLPURL == "" {
		return nil
	}
	o := a.config.Traces(Version())
	o.Now, o.Target, o.Log = func() time.Time { return a.store.Clock().Wall() }, a.target, config.LogOf(a.log, "traces")
	return traces.New(o)
}

// target returns the URL of an endpoint; empty: it has none, or is deleted.
func (a *App) target(id postrider.EndpointID) string {
	known, ok := a.table.Lookup(id)
	if !ok {
		return ""
	}
	return known.Endpoint.URL
}

// traced returns the hooks of the tracer, and which events are recorded. Without a tracer
// there are none.
func (a *App) traced() (observe.Hooks, func(postrider.EventID) bool) {
	if a.tracer == nil {
		return observe.Hooks{}, nil
	}
	return a.tracer.Hooks(), a.tracer.Sampled
}

// runTracer sends what the tracer records until ctx ends.
func (a *App) runTracer(ctx context.Context) error {
	if a.tracer == nil {
		<-ctx.Done()
		return nil
	}
	return a.tracer.Run(ctx)
}

// spans returns how many spans were sent and dropped.
func (a *App) spans() (sent, dropped int64) {
	if a.tracer == nil {
		return 0, 0
	}
	return a.tracer.Counts()
}
