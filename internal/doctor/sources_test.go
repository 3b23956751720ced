package doctor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/doctor"
)

func TestSources(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*doctor.Source)
		check  doctor.Name
		want   judged
	}{
		"a good one": {
			func(*doctor.Source) {}, doctor.SourceConnect, judged{doctor.OK, "shop (postgres://reader@db/shop) can be read", ""},
		},
		"away": {
			func(s *doctor.Source) { s.Err = errors.New("connection refused") }, doctor.SourceConnect,
			judged{doctor.Fail, "connection refused", "postrider sources put shop"},
		},
		"rows that come": {
			func(s *doctor.Source) { s.Waiting, s.Lag = 1, time.Second }, doctor.SourceLag, judged{doctor.OK, "1 row waiting", ""},
		},
		"rows of a table of the producer's own": {
			func(s *doctor.Source) { s.Waiting, s.Own = 2, true }, doctor.SourceLag, judged{doctor.OK, "2 rows waiting or rejected", ""},
		},
		"rows that wait": {
			func(s *doctor.Source) { s.Waiting, s.Lag = 7, time.Hour }, doctor.SourceLag,
			judged{doctor.Warn, "7 rows waiting, the oldest for 1h0m0s", "postrider sources get shop"},
		},
		"paused": {
			func(s *doctor.Source) { s.Waiting, s.Lag, s.Paused = 7, time.Hour, true }, doctor.SourceLag, judged{doctor.OK, "7 rows", ""},
		},
		"an open transaction": {
			func(s *doctor.Source) { s.Open = time.Hour }, doctor.SourceTransaction,
			judged{doctor.Warn, "open for 1h0m0s", "pg_stat_activity"},
		},
		"a short transaction": {
			func(s *doctor.Source) { s.Open = time.Minute }, doctor.SourceTransaction, judged{doctor.OK, "no transaction", ""},
		},
		"an asynchronous replica": {
			func(s *doctor.Source) { s.AsyncReplicas = 1 }, doctor.SourceReplicas,
			judged{doctor.Warn, "1 asynchronous replica;", "synchronous_standby_names"},
		},
		"none": {func(*doctor.Source) {}, doctor.SourceReplicas, judged{doctor.OK, "no asynchronous replica", ""}},
		"a table of its own": {
			func(s *doctor.Source) { s.Own = true }, doctor.SourceConnect,
			judged{doctor.Warn, "nothing can read them again, or tell how many", "postrider outbox install"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := doctor.Source{Name: "shop", Database: "postgres://reader@db/shop", Version: 1}
			tt.change(&s)
			expect(t, pick(t, s.Checks(), tt.check), tt.want)
		})
	}
}
