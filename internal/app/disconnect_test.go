package app

import (
	"testing"

	"github.com/postrider/postrider/internal/drivers"
)

// A start that fails after it opened the archive is tried again, and opens it again.
func TestEachTryToStartClosesItsArchive(t *testing.T) {
	t.Parallel()
	closed := 0
	a := &App{archive: drivers.Archive{Close: func() { closed++ }}}
	a.disconnect()
	if a.disconnect(); closed != 1 {
		t.Errorf("the archive was closed %d times, want once", closed)
	}
}
