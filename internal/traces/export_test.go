package traces

import (
	"context"
	"net/http"
)

// The limits that tests reach.
const (
	MaxWaiting = maxWaiting
	MaxBatch   = maxBatch
	GiveUp     = giveUp
	LastWait   = lastWait
)

// Sending is a door that sends by a function, for tests in virtual time. A connection of the
// machine would not wait in virtual time.
type Sending func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (s Sending) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// CloseIdleConnections does nothing, because there are no connections.
func (Sending) CloseIdleConnections() {}

// SendBy makes the tracer send by a function.
func (t *Tracer) SendBy(send Sending) { t.door = send }

// SendWaiting sends all spans that wait.
func (t *Tracer) SendWaiting(ctx context.Context) {
	(&exporter{Tracer: t}).sendWaiting(ctx, ctx)
}
