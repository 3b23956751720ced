package main

import "testing"

// TestAStoreOfAFewDaysIsMeasured runs the program with a few events a day, and checks that old days
// are deleted.
func TestAStoreOfAFewDaysIsMeasured(t *testing.T) {
	o := options{stores: "sqlite,postgres", days: 4, rows: 20, events: 1, attempts: 1, within: 1}
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
}
