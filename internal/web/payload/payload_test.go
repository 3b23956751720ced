package payload

import (
	"strings"
	"testing"
)

func TestAPayloadHasALimitOfMarks(t *testing.T) {
	t.Parallel()
	text := `["` + strings.Repeat(strings.Repeat("a", 2000)+`","`, 100) + `"]`
	p := New([]byte(text), "a", false)
	if p.Root == nil || p.Hits != 200_000 {
		t.Fatalf("the payload has %d hits, want 200000", p.Hits)
	}
	marks := 0
	for _, part := range p.Root.Parts {
		for _, piece := range part.Text {
			if piece.Hit {
				marks++
			}
		}
	}
	if marks != maxMarks {
		t.Errorf("%d hits are marked, want %d", marks, maxMarks)
	}
}
