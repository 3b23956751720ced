package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lastFailuresSQL reads the last failures of endpoints, in the order of the ids. It walks
// attempts_endpoint from its end for the newest attempts, and attempt_bodies_pkey for the body of
// the chosen one. It compares and orders rows as deliveriesOfEndpointSQL does, for the same
// reason.
const lastFailuresSQL = `
	select a.delivery, a.number, a.event, a.endpoint, a.outcome, a.status_code, a.error, a.retry_after, a.started_at,
		a.duration, a.stale, a.status_after, a.next_at, coalesce(a.final_url, ''), a.timing,
		null::bytea, b.response_head, substr(coalesce(b.response_body, a.response_start), 1, @bytes::int)
	from unnest(@ids::uuid[]) with ordinality as e (id, place)
	cross join lateral (
		select n.*
		from (
			select a.*
			from attempts a
			where (a.endpoint, a.delivery) >= (e.id, '00000000-0000-0000-0000-000000000000'::uuid)
				and (a.endpoint, a.delivery) <= (e.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
			order by a.endpoint desc, a.delivery desc, a.number desc
			limit @looked
		) n
		where n.outcome not in ('accepted', 'lost', 'none')
		order by n.started_at desc
		limit 1
	) a
	left join lateral (
		select b.*
		from attempt_bodies b
		where b.delivery = a.delivery and b.number = a.number
		limit 1
	) b on true
	order by e.place`

// LastFailures returns the last failed request of each endpoint; see [store.Rollups].
func (s *Store) LastFailures(ctx context.Context, ids ...postrider.EndpointID) (_ []postrider.Attempt, err error) {
	defer s.calls.Begin("LastFailures").End(&err, "read last failures")
	column := uuids{}
	for _, id := range ids {
		column = append(column, someUUID(id))
	}
	return count(ctx, s, query{lastFailuresSQL, pgx.NamedArgs{
		"ids": column, "looked": store.FailuresLooked, "bytes": store.FailureBody,
	}}, scanAttempt)
}
