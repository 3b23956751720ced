// Package notify publishes operational events. It turns each notice of an account into an event of
// the type postrider.KIND, for the account's endpoints that subscribe to that type.
//
// [Notify.Run] reads the notices after the last published one, oldest first ([store.NextNotices]).
// It publishes their events as a producer would, and stores its position. It promises:
//
//   - Each notice is published at most once. The id of the notice is the idempotency key
//     of its event, and the data of the event depends only on the notice. Any number of
//     nodes may publish at once, and another node continues if one dies.
//   - A notice about an endpoint that itself subscribes to operational events gets no event.
//     So operational events that fail never cause further ones. Such a notice is listed,
//     and sent by e-mail.
//   - Nothing waits for this package. If publishes are refused because deliveries lag
//     behind, it waits like every producer.
//
// It writes no notices: the janitor and the replay jobs do.
package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of a store that a [Notify] needs.
type Store interface {
	store.Notices
	store.Catalogue

	// Clock is the method of [store.Queue].
	Clock() *store.Clock
}

// Publisher publishes events. [ingest.Ingest] implements it.
type Publisher interface {
	// Publish stores the events, all or none.
	Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)
}

// Endpoints knows the endpoints and their subscriptions. [routing.Table] implements it.
type Endpoints interface {
	// Lookup returns an endpoint; false: it is unknown or deleted.
	Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool)
	// Match returns at most `most` endpoints that subscribe to the event type, and the id of the
	// last one; zero if none does.
	Match(e *postrider.Event, most int) ([]*store.EndpointSnapshot, postrider.EndpointID)
}

// Options tunes a [Notify]. The zero value is the production default.
type Options struct {
	Every time.Duration // between two reads of notices; default 5 s
	Hooks observe.Hooks // default: none
	Log   *slog.Logger  // default: discard
}

// Notify publishes operational events. Make it with [New].
type Notify struct {
	store     Store
	publisher Publisher
	endpoints Endpoints
	opts      Options
}

// New returns a Notify that publishes the notices of the store.
func New(s Store, to Publisher, endpoints Endpoints, opts Options) *Notify {
	opts.Every = cmp.Or(opts.Every, 5*time.Second)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return &Notify{s, to, endpoints, opts}
}

const (
	// page is how many notices are published together.
	page = 100
	// roundTime is the time limit of a round. After it, a hanging store or publish is tried again.
	roundTime = 30 * time.Second
	// chore names a round in logs and hooks.
	chore = "publish notices"
)

// Run first adds the types of operational events to the catalogue. Then it publishes notices until
// ctx ends, and returns nil. After an error it tries again, after a wait that doubles from 1 s to a
// minute.
func (n *Notify) Run(ctx context.Context) error {
	catalogued := false
	const firstRetry = time.Second
	for retry := firstRetry; ; {
		begun, rows, more := time.Now(), 0, false
		err := n.within(ctx, func(ctx context.Context) (err error) {
			if !catalogued {
				err = n.catalogue(ctx)
				catalogued = err == nil
			}
			if err == nil {
				rows, more, err = n.round(ctx)
			}
			return err
		})
		wait := n.opts.Every
		switch {
		case err != nil && ctx.Err() == nil:
			n.opts.Log.WarnContext(ctx, "chore failed", "chore", chore, "error", err, "retry_in", retry.String())
			wait, retry = retry, min(2*retry, time.Minute)
		case more:
			wait, retry = 10*time.Millisecond, firstRetry
		default:
			retry = firstRetry
		}
		if ctx.Err() == nil {
			n.opts.Hooks.ChoreDone.Call(observe.ChoreDone{Name: chore, Took: time.Since(begun), Rows: rows, Err: err})
		}
		if !batch.Sleep(ctx, wait) {
			return nil
		}
	}
}

// within calls do with a deadline.
func (n *Notify) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, roundTime, errors.New("a round of notices took too long"))
	defer cancel()
	return do(ctx)
}

// round publishes the next page of notices. It returns how many notices it handled, and whether
// there may be more.
func (n *Notify) round(ctx context.Context) (rows int, more bool, err error) {
	last, err := n.store.NoticesPublished(ctx)
	if err != nil {
		return 0, false, err
	}
	notices, err := store.NextNotices(ctx, n.store, store.NoticeQuery{Paging: store.Paging{Limit: page}}, last)
	n.opts.Hooks.NoticesWaiting.Call(len(notices))
	if err != nil || len(notices) == 0 {
		return 0, false, err
	}
	var events []postrider.Event
	for _, notice := range notices {
		if !n.wanted(notice) {
			continue
		}
		e, err := eventOf(notice)
		if err != nil {
			return 0, false, err
		}
		events = append(events, e)
	}
	if err := n.publish(ctx, events); err != nil {
		return 0, false, err
	}
	if err := n.store.SetNoticesPublished(ctx, notices[len(notices)-1].ID); err != nil {
		return 0, false, err
	}
	more = len(notices) == page
	if !more {
		n.opts.Hooks.NoticesWaiting.Call(0)
	}
	return len(notices), more, nil
}

// wanted reports whether the notice gets an event. The notice must belong to an account with an
// endpoint that subscribes to it, and must not be about an endpoint that subscribes to operational
// events. A notice about a deleted endpoint gets none: its subscriptions are unknown.
func (n *Notify) wanted(notice postrider.Notice) bool {
	if notice.Account.IsZero() {
		return false
	}
	if _, last := n.endpoints.Match(&postrider.Event{Account: notice.Account, Type: notice.Kind.EventType()}, 0); last.IsZero() {
		return false
	}
	id, err := postrider.ParseID[postrider.EndpointID](notice.Object)
	if err != nil {
		return true // the notice is not about an endpoint
	}
	e, known := n.endpoints.Lookup(id)
	return known && !e.Endpoint.WantsOperational()
}

// eventOf returns the event of a notice. It depends only on the notice, because a second publish
// with the same idempotency key must have the same content.
func eventOf(notice postrider.Notice) (postrider.Event, error) {
	data, err := json.Marshal(apitypes.NoticeOf(notice))
	if err != nil {
		return postrider.Event{}, fmt.Errorf("encode notice %s: %w", notice.ID, err)
	}
	return postrider.Event{
		Account: notice.Account, Type: notice.Kind.EventType(), Data: data, IdempotencyKey: notice.ID.String(),
	}, nil
}

// publish publishes the events. It leaves out an event whose idempotency key is taken by other
// content: another version of this program, which wrote the data differently, has published that
// event.
func (n *Notify) publish(ctx context.Context, events []postrider.Event) error {
	for len(events) > 0 {
		_, err := n.publisher.Publish(ctx, events)
		var taken *postrider.KeyTakenError
		if !errors.As(err, &taken) || taken.Index < 0 || taken.Index >= len(events) {
			return err
		}
		n.opts.Log.WarnContext(ctx, "operational event not published: its idempotency key is taken",
			"type", events[taken.Index].Type, "notice", events[taken.Index].IdempotencyKey)
		events = slices.Delete(events, taken.Index, taken.Index+1)
	}
	return nil
}
