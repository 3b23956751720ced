package api

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type orderedKeyView struct {
	Key      string  `json:"key"`
	Waiting  int     `json:"waiting" doc:"Pending deliveries of the key, the head among them; counted up to 1000."`
	Head     *string `json:"head" doc:"The delivery whose turn it is; null: none is pending."`
	Sequence *int64  `json:"sequence" doc:"The head's."`
	Since    *string `json:"since" format:"date-time" doc:"When the head was made; of a paused key, when it was paused."`
	Lag      int64   `json:"lag_ms" doc:"How long ago that was."`
	PausedBy *string `json:"paused_by" doc:"The dead letter that the key waits for; null: it is not paused."`
}

func viewOrderedKey(k store.OrderedKey, now time.Time) orderedKeyView {
	view := orderedKeyView{
		Key: k.Key, Waiting: k.Waiting, Head: idOrNull(k.Head), Sequence: orNull(k.Sequence),
		Since: instantOrNull(k.Since), PausedBy: idOrNull(k.PausedBy),
	}
	if !k.Since.IsZero() {
		view.Lag = max(0, now.Sub(k.Since).Milliseconds())
	}
	return view
}

func (rt *router) ordering() {
	handle(rt, route{
		name: "list-ordering-keys", path: "GET /endpoints/{endpoint}/ordering-keys",
		about: "List the ordering keys of an endpoint that have something waiting or are paused, by key",
		scope: postrider.ScopeWebhooksRead,
	}, rt.listOrderingKeys)
}

func (s *server) listOrderingKeys(ctx context.Context, in *struct {
	EndpointPath
	Paging
},
) (*reply[page[orderedKeyView]], error) {
	e, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	keys, err := s.Store.OrderedKeys(ctx, store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID, Paging: in.Paging.of()})
	if err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(keys, func(k store.OrderedKey) orderedKeyView { return viewOrderedKey(k, now) }), nil
}
