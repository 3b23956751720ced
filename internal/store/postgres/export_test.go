package postgres

import (
	"context"

	"github.com/postrider/postrider"
)

// SetPolicyDocument replaces the stored policy of an endpoint; see package
// storetest.
func (s *Store) SetPolicyDocument(ctx context.Context, id postrider.EndpointID, document string) error {
	_, err := s.pool.Exec(ctx, `update endpoints set policy = $1 where id = $2`, document, someUUID(id))
	return err
}

// Setting returns a setting of one of the pool's sessions.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, `select current_setting($1)`, name).Scan(&value)
	return value, err
}
