package store

import (
	"fmt"

	"github.com/postrider/postrider"
)

// TraceContext returns what a store keeps of the producer's trace in one column: the bytes of
// TraceParent, and then TraceState. Nil: the producer gave none.
func TraceContext(e *postrider.Event) []byte {
	if e.TraceParent.IsZero() {
		return nil
	}
	return append(e.TraceParent[:len(e.TraceParent):len(e.TraceParent)], e.TraceState...)
}

// SetTraceContext gives the event what TraceContext returned.
func SetTraceContext(e *postrider.Event, kept []byte) error {
	e.TraceParent, e.TraceState = postrider.TraceParent{}, ""
	if kept == nil {
		return nil
	}
	n := len(e.TraceParent)
	if len(kept) < n {
		return fmt.Errorf("scan %d bytes as a trace", len(kept))
	}
	e.TraceParent, e.TraceState = postrider.TraceParent(kept[:n]), string(kept[n:])
	return nil
}
