package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The deliveries of an endpoint are listed even if the newest 10,000 rows of the queue belong to
// another endpoint. The deliveries of that other endpoint are listed too.
func TestDeliveriesBesideBacklog(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(ctx, seeded(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const more = `
		insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at)
		select ('0fffffff-ffff-7fff-8fff-' || lpad(to_hex(i), 12, '0'))::uuid, a.event, a.endpoint, a.account, '', 0,
			now(), 0, 0, 0, now() + interval '7 days'
		from (select postrider_event(delivery, named_event) as event, endpoint, account from attempts order by endpoint, delivery limit 1) a,
			generate_series(1, 10001) i`
	if _, err := s.pool.Exec(ctx, more); err != nil {
		t.Fatal(err)
	}
	for i, want := range []postrider.Status{postrider.Pending, postrider.Delivered} {
		var id pgtype.UUID
		if err := s.pool.QueryRow(ctx, `select distinct endpoint from attempts order by 1 offset $1 limit 1`, i).Scan(&id); err != nil {
			t.Fatal(err)
		}
		page, err := s.Deliveries(ctx, store.DeliveryQuery{Endpoint: id.Bytes, Paging: store.Paging{Limit: 250}})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, d := range page.Items {
			if d.Endpoint != id.Bytes {
				t.Errorf("a delivery of %s is listed for %x", d.Endpoint, id.Bytes)
			}
			if d.Status == want {
				found++
			}
		}
		if found == 0 {
			t.Errorf("of endpoint %d no delivery of %d is %s", i, len(page.Items), want)
		}
	}
}
