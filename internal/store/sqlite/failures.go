package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lastFailuresSQL returns the last failures of endpoints. Each 16 bytes of @ids are the id of an
// endpoint. It walks attempts_endpoint from its end for the newest attempts, and the primary keys
// for the chosen attempt and its body.
const lastFailuresSQL = `
	with recursive asked (place, id) as (
		select 0, substr(@ids, 1, 16) where length(@ids) > 0
		union all
		select place + 1, substr(@ids, 16 * place + 17, 16) from asked where length(@ids) > 16 * place + 16
	)
	select ` + attemptsColumns + `, null, attempt_bodies.response_head, substr(coalesce(response_body, response_start), 1, @bytes)
	from asked
	join attempts on (delivery, attempts.number) = (
		select n.delivery, n.number
		from (
			select delivery, number, outcome, started_at
			from attempts newest
			where newest.endpoint = asked.id
			order by delivery desc, number desc
			limit @looked
		) n
		where n.outcome not in ('accepted', 'lost', 'none')
		order by n.started_at desc
		limit 1)
	left join attempt_bodies using (delivery, number)
	order by place`

// LastFailures returns the last failed request of each endpoint; see [store.Rollups].
func (s *Store) LastFailures(ctx context.Context, ids ...postrider.EndpointID) (_ []postrider.Attempt, err error) {
	defer s.calls.Begin("LastFailures").End(&err, "read last failures")
	var all []byte
	for _, id := range ids {
		all = append(all, id[:]...)
	}
	failures, err := list(ctx, s, query{lastFailuresSQL, []any{
		sql.Named("ids", someBytes(all)), sql.Named("looked", store.FailuresLooked), sql.Named("bytes", store.FailureBody),
	}}, scanAttempt)
	return failures, s.fault(err)
}
