package main

import (
	"strings"
	"testing"
)

// TestPublishIsMeasured runs the program for a second a variant.
func TestPublishIsMeasured(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), options{clients: 2, seconds: 1, rounds: 1}, &out); err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		if !strings.Contains(out.String(), "| "+v.name+" |") {
			t.Errorf("no row for %q in\n%s", v.name, &out)
		}
	}
}
