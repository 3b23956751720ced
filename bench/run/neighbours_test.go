package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestANeighbourMustWork shows that a scenario fails if a neighbour fails or does nothing.
func TestANeighbourMustWork(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		name string
		does error
		done int64
		fine bool
	}{
		{"it works", nil, 3, true},
		{"it does nothing", nil, 0, false},
		{"it fails after some work", failed, 3, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := neighbour{unit: "rows", during: func(_ context.Context, _ *environment, r *reading) error {
				r.work.Store(tt.done)
				return tt.does
			}}
			if err := n.work(t.Context(), nil, &reading{}); (err == nil) != tt.fine {
				t.Errorf("work = %v", err)
			}
		})
	}
}

// TestACrossTableHasTheFiguresByRowAndColumn shows that a cell is the median of the figure "row: column".
func TestACrossTableHasTheFiguresByRowAndColumn(t *testing.T) {
	var b strings.Builder
	cross{rows: []string{"lists", "archive"}, columns: []string{"p99", "took"}}.write(&b, []*row{
		{figure: "lists: p99", format: "%.1f ms", values: []float64{1, 9, 2}},
		{figure: "archive: took", format: "%.0f s", values: []float64{7}},
		{figure: "archive: p99 of others", format: "%.0f s", values: []float64{5}},
	})
	want := "\n| | p99 | took |\n|---|--:|--:|\n| lists | 2.0 ms |  |\n| archive |  | 7 s |\n"
	if b.String() != want {
		t.Errorf("the table is %q, want %q", b.String(), want)
	}
}
