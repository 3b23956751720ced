package janitor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// SetAside sets an endpoint aside, because its condition could not be evaluated for many events in a
// row, and tells its owner. It does nothing if the endpoint is not as it was given any more.
func (j *Janitor) SetAside(ctx context.Context, e postrider.Endpoint) error {
	e.ConditionFailed = true
	put, err := j.store.PutEndpoint(ctx, store.PutEndpoint{Endpoint: e})
	if overtaken(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set endpoint %s aside: %w", e.ID, err)
	}
	return j.tell(ctx, postrider.Notice{
		Account: e.Account, Kind: postrider.NoticeConditionFailed, Object: e.ID.String(), Occurrence: strconv.FormatInt(put.Revision, 10),
	})
}
