package main

import (
	"testing"
	"time"

	"github.com/postrider/postrider/apitypes"
)

func TestTheStateOfASession(t *testing.T) {
	t.Parallel()
	before, after := apitypes.Time{Time: time.Now().Add(-time.Minute)}, apitypes.Time{Time: time.Now().Add(time.Hour)}
	for want, s := range map[string]apitypes.Session{
		"open":            {Opened: true, ExpiresAt: after},
		"expired":         {Opened: true, ExpiresAt: before},
		"link not opened": {ExpiresAt: after},
		"revoked":         {Opened: true, ExpiresAt: before, RevokedAt: &before},
	} {
		row := sessionTable.row(s)
		if got := row[len(row)-1]; got != want {
			t.Errorf("the state of %+v = %q, want %q", s, got, want)
		}
	}
}
