package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
)

// SetPolicyDocument replaces the stored policy of an endpoint; see package
// storetest.
func (s *Store) SetPolicyDocument(ctx context.Context, id postrider.EndpointID, document string) error {
	_, err := write(ctx, s, func(ctx context.Context, tx *tx) (struct{}, error) {
		return struct{}{}, tx.exec(ctx, `update endpoints set policy = @policy where id = @id`,
			sql.Named("policy", document), sql.Named("id", blob(id)))
	})
	return err
}
