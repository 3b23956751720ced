package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// Notifier learns which endpoints changed.
type Notifier interface {
	// Notify is called after an endpoint or its circuit changed, and after
	// deliveries may have become due for it. It must not block.
	Notify(endpoint postrider.EndpointID)
}

// Canceller deletes the endpoints of deleted accounts, and cancels the pending
// deliveries of deleted endpoints.
type Canceller interface {
	// DeleteEndpoints deletes all endpoints of deleted accounts.
	DeleteEndpoints(ctx context.Context) error
	// CancelDeleted starts this work. It must not block.
	CancelDeleted()
}

// Awaiter knows when a change has taken effect.
type Awaiter interface {
	// Await waits until what the change took away is not sent any more, and returns the nodes
	// that have not confirmed that within a few seconds.
	Await(ctx context.Context, w postrider.Withdrawal) postrider.NotEffective
}

// Effects tells the dispatcher of what a request has changed, and waits until that is in effect.
type Effects struct {
	Notifier

	Awaiter   Awaiter // nil: every change is in effect when it is stored
	Canceller Canceller
	Host      string       // the name of this server's machine
	Clock     *store.Clock // of the store
}

// Await waits until a change that is stored has taken effect. Every operation that takes something
// away from an endpoint calls it after its last write. If nodes have not confirmed it, the
// response is a 202 that says so (responseWriter.head): the change is stored, so it is no error.
func (s *Effects) Await(ctx context.Context, w postrider.Withdrawal) {
	if s.Awaiter == nil {
		return
	}
	if n := s.Awaiter.Await(ctx, w); n.Any() {
		InfoOf(ctx).notEffective = n
	}
}

// deletedSoon is when the janitor has deleted the endpoints of an account, if the request could not.
const deletedSoon = time.Minute

// Soon notes that the change of the request will be in effect when the janitor has made it.
func (s *Effects) Soon(ctx context.Context) {
	InfoOf(ctx).notEffective = postrider.NotEffective{Nodes: []string{s.Host}, Until: s.Clock.Wall().Add(deletedSoon)}
}

// AwaitDeleted deletes the endpoints of deleted accounts and waits until no node serves or matches them.
func (s *Effects) AwaitDeleted(ctx context.Context) {
	err := s.Canceller.DeleteEndpoints(ctx)
	s.Canceller.CancelDeleted()
	if s.Await(ctx, postrider.Withdrawal{}); err != nil {
		s.Soon(ctx)
	}
}

// notEffectiveHeader says in a 202 which servers may still act as before the change.
const notEffectiveHeader = "Not-Yet-Effective"

// noteEffect adds the header to the response of a change that is not in effect on all nodes, and
// returns the status: 202 where it would be 200 or 204.
func (a *responseWriter) noteEffect(status int) int {
	n := a.info.notEffective
	if !n.Any() || status/100 != 2 {
		return status
	}
	a.Header().Set(notEffectiveHeader, apitypes.NotEffective{Servers: n.Nodes, Until: n.Until}.Header())
	return http.StatusAccepted
}

// takesEffect is a part of the description of every operation that takes something away.
const takesEffect = " The response comes when the change is in effect: what arrives at the receiver later than 100 ms after it was sent by the new state, " +
	"except what a server sends that stood still in that moment. If a server does not confirm that within two seconds, the response is a 202: " +
	"the change is stored, and the header `" + notEffectiveHeader + "` says which servers may still act as before, and until when at the latest."

// describeEffect adds the 202 to the document of an operation. It has the body of the other success.
func describeEffect(op huma.Operation) {
	header := map[string]*huma.Param{notEffectiveHeader: {
		Description: "When the change is in effect at the latest, and on which servers it is not yet.",
		Schema:      &huma.Schema{Type: huma.TypeString}, Example: `until="2026-11-25T12:00:05.000Z", servers="b c"`,
	}}
	if op.DefaultStatus == http.StatusAccepted {
		op.Responses["202"].Headers = header
		return
	}
	response := &huma.Response{Description: "The change is stored, and not yet in effect on all servers.", Headers: header}
	for _, status := range []string{"200", "204"} {
		if success := op.Responses[status]; success != nil {
			response.Content = success.Content
		}
	}
	op.Responses["202"] = response
}
