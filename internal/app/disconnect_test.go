package app

import "testing"

// A start that fails after it opened the archive is tried again, and opens it again.
func TestEachTryToStartClosesItsArchive(t *testing.T) {
	t.Parallel()
	closed := 0
	a := &App{archive: keptArchive{close: func() { closed++ }}}
	a.disconnect()
	if a.disconnect(); closed != 1 {
		t.Errorf("the archive was closed %d times, want once", closed)
	}
}
