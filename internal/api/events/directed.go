package events

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api/rest"
)

// maxNamed is the largest number of different endpoints that the events of one request may name. Each is
// looked up in the store.
const maxNamed = 1000

// named has the endpoints that the events of one batch have named so far; a zero id: there is none. For a
// single event it is nil.
type named map[endpointName]postrider.EndpointID

// endpointName is an id or a uid.
type endpointName struct {
	account postrider.AccountID
	name    string
}

// directed returns the endpoints of the account that an event names, ordered by id, or all faults of the
// names. If the account is zero, which is a fault already, or names is nil, it returns none.
func (s *Routes) directed(
	ctx context.Context, account postrider.AccountID, names []string, known named,
) (ids []postrider.EndpointID, err error) {
	if account.IsZero() || names == nil {
		return nil, nil
	}
	if n := len(names); n < 1 || n > postrider.MaxEventEndpoints {
		return nil, rest.WrongCount("endpoints", 1, postrider.MaxEventEndpoints, "endpoints")
	}
	var faults []error
	for i, name := range names {
		field := fmt.Sprintf("endpoints[%d]", i)
		id, err := s.endpointNamed(ctx, endpointName{account, name}, known)
		switch {
		case errors.Is(err, postrider.ErrNotFound):
			faults = append(faults, rest.Invalid(field, postrider.FaultNotFound, "names no endpoint of the account"))
		case err != nil:
			return nil, err
		case slices.Contains(ids, id):
			faults = append(faults, rest.Invalid(field, postrider.FaultRepeated, "must not name an endpoint twice"))
		default:
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, postrider.EndpointID.Compare)
	return ids, errors.Join(faults...)
}

// endpointNamed returns the endpoint with the name, which the store looks up once for a request.
func (s *Routes) endpointNamed(ctx context.Context, n endpointName, known named) (postrider.EndpointID, error) {
	id, ok := known[n]
	if !ok && len(known) == maxNamed {
		return id, &postrider.InvalidError{
			Field: "endpoints", Code: postrider.FaultWrongCount, Max: maxNamed,
			Reason: fmt.Sprintf("must not name more than %d different endpoints in one request", maxNamed),
		}
	}
	if !ok {
		var err error
		if id, err = s.Names.EndpointOf(ctx, n.account, n.name); err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return id, err
		}
		if known != nil {
			known[n] = id
		}
	}
	if id.IsZero() {
		return id, postrider.ErrNotFound
	}
	return id, nil
}
