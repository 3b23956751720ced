package postgres_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A claim skips a locked row. If the row is free afterwards, the lane's next claim finds it, even
// if it has been due for much longer than the rows that the first claim leased.
func TestARowThatWasLockedDuringAClaimIsClaimedNext(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn := newShop(t, dsn), connect(t, dsn)
	batch := s.batch(3, 0)
	if _, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{batch}}); err != nil {
		t.Fatal(err)
	}
	oldest := batch[0].Deliveries[0].ID
	for _, statement := range []string{
		`update queue set due_at = due_at - interval '1 minute' where id = $1`, `begin`, `select from queue where id = $1 for update`,
	} {
		var args []any
		if statement != `begin` {
			args = []any{oldest[:]}
		}
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	want := store.Want{Endpoint: s.endpoint.ID, Lane: postrider.LaneFirst, N: 10, Lease: time.Minute}
	claim := func(token postrider.Token) (ids []postrider.DeliveryID) {
		claims, err := s.Claim(t.Context(), store.Claim{Wants: []store.Want{want}, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		want.After = claims.Lanes[0].Low
		for _, c := range claims.Items {
			ids = append(ids, c.ID)
		}
		return ids
	}
	if got := claim(1); len(got) != 2 {
		t.Errorf("claimed %v, want the two that are not locked", got)
	}
	if _, err := conn.Exec(t.Context(), `rollback`); err != nil {
		t.Fatal(err)
	}
	if got := claim(2); len(got) != 1 || got[0] != oldest {
		t.Errorf("claimed %v, want %v, which is free again", got, oldest)
	}
}
