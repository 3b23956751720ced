package store

import (
	"fmt"

	"github.com/postrider/postrider"
)

// TraceContext returns the stored form of the producer's trace: the bytes of TraceParent,
// followed by TraceState, in one column. It returns nil if the producer gave no trace.
func TraceContext(e *postrider.Event) []byte {
	if e.TraceParent.IsZero() {
		return nil
	}
	return append(e.TraceParent[:len(e.TraceParent):len(e.TraceParent)], e.TraceState...)
}

// SetTraceContext sets the trace of the event from its stored form.
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
