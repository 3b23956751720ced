package main

import (
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTheCollectorCountsSpans shows that a span is counted by its place in the message, whatever
// other fields the message has.
func TestTheCollectorCountsSpans(t *testing.T) {
	spans := func(n int) *trace.ScopeSpans {
		return &trace.ScopeSpans{SchemaUrl: "of a scope", Spans: make([]*trace.Span, n)}
	}
	whole, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{
		{ScopeSpans: []*trace.ScopeSpans{spans(2), spans(0)}, SchemaUrl: "of a resource"},
		{ScopeSpans: []*trace.ScopeSpans{spans(3)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := spansOf(whole, 1, 2, 2); n != 5 || !ok {
		t.Errorf("spansOf(five spans) = %d, %v", n, ok)
	}
	if n, ok := spansOf(nil, 1, 2, 2); n != 0 || !ok {
		t.Errorf("spansOf(nothing) = %d, %v", n, ok)
	}
	if n, ok := spansOf(whole[:len(whole)-1], 1, 2, 2); ok {
		t.Errorf("spansOf(a message that is cut) = %d, true", n)
	}
}
