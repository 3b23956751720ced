package api

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type orderedKeyView struct {
	Key      string  `json:"key"`
	Waiting  int     `json:"waiting" doc:"Number of pending deliveries of the key, with the head. Counting stops at 1000."`
	Head     *string `json:"head" doc:"Id of the next delivery of the key. Null: none is pending."`
	Sequence *int64  `json:"sequence" doc:"Sequence of the head. Null: there is no head."`
	Since    string  `json:"since" format:"date-time" doc:"Time when the head was created; for a paused key, time when it was paused."`
	Lag      int64   `json:"lag_ms" doc:"Time since then, in milliseconds."`
	PausedBy *string `json:"paused_by" doc:"Id of the dead letter that pauses the key. Null: it is not paused."`
}

func viewOrderedKey(k store.OrderedKey, now time.Time) orderedKeyView {
	return orderedKeyView{
		Key: k.Key, Waiting: k.Waiting, Head: idOrNull(k.Head), Sequence: orNull(k.Sequence),
		Since: instant(k.Since), Lag: max(0, now.Sub(k.Since).Milliseconds()), PausedBy: idOrNull(k.PausedBy),
	}
}

func (rt *router) ordering() {
	handle(rt, route{
		name: "list-ordering-keys", path: "GET /endpoints/{endpoint}/ordering-keys",
		about: "List an endpoint's ordering keys that wait or are paused, by key",
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
