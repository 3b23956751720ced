package live

import (
	"testing"

	"github.com/postrider/postrider"
)

func TestOneAccountTakesNotAllStreams(t *testing.T) {
	t.Parallel()
	s := New(nil)
	caller := func(account, session byte) postrider.Caller {
		return postrider.Caller{Account: postrider.AccountID{account}, Session: postrider.SessionID{session}}
	}
	begun := 0
	for n := range 100 { // as many sessions, each with as many streams as it may have
		for range maxStreamsOfSession {
			if s.begin(caller(1, byte(n))) {
				begun++
			}
		}
	}
	if begun != maxStreamsOfAccount || !s.begin(caller(2, 200)) || !s.begin(caller(0, 201)) {
		t.Errorf("an account has %d streams, want %d and some for others", begun, maxStreamsOfAccount)
	}
	s.done(caller(1, 0))
	if !s.begin(caller(1, 0)) {
		t.Error("a stream that has ended is still counted")
	}
}
