package main

import "testing"

// A few events a day show that the program works, and that days go.
func TestAStoreOfAFewDaysIsMeasured(t *testing.T) {
	o := options{stores: "sqlite,postgres", days: 4, rows: 20, events: 1, attempts: 1, within: 1}
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
}
