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

// Canceller deletes the endpoints of deleted accounts, and cancels the pending deliveries of
// deleted endpoints.
type Canceller interface {
	// DeleteEndpoints deletes all endpoints of deleted accounts.
	DeleteEndpoints(ctx context.Context) error
	// CancelDeleted starts to cancel the pending deliveries of deleted endpoints. It must not
	// block.
	CancelDeleted()
}

// Awaiter knows when a change is in effect on all nodes.
type Awaiter interface {
	// Await waits until no node sends what the change withdrew. It returns the nodes that have not
	// confirmed that within a few seconds.
	Await(ctx context.Context, w postrider.Withdrawal) postrider.NotEffective
}

// Effects tells the dispatcher which endpoint a request has changed, and waits until the change is
// in effect.
type Effects struct {
	Notifier

	Awaiter   Awaiter // nil: every change is in effect as soon as it is stored
	Canceller Canceller
	Host      string       // the name of this server's machine
	Clock     *store.Clock // of the store
}

// Await waits until a stored change is in effect. Every operation that takes something away from an
// endpoint or account calls Await after its last write. If some nodes have not confirmed the change, the
// response is a 202 that names them (responseWriter.noteEffect). This is not an error, because the
// change is stored.
func (s *Effects) Await(ctx context.Context, w postrider.Withdrawal) {
	if s.Awaiter == nil {
		return
	}
	if n := s.Awaiter.Await(ctx, w); n.Any() {
		InfoOf(ctx).notEffective = n
	}
}

// deletedSoon is the time within which the janitor deletes the endpoints of an account, if the
// request could not delete them.
const deletedSoon = time.Minute

// Soon notes that the change of the request takes effect only when the janitor makes it, within
// deletedSoon.
func (s *Effects) Soon(ctx context.Context) {
	InfoOf(ctx).notEffective = postrider.NotEffective{Nodes: []string{s.Host}, Until: s.Clock.Wall().Add(deletedSoon)}
}

// AwaitDeleted deletes the endpoints of deleted accounts. Then it waits until no node serves or
// matches these endpoints, and none finds the accounts by their uids or accepts their keys.
func (s *Effects) AwaitDeleted(ctx context.Context) {
	err := s.Canceller.DeleteEndpoints(ctx)
	s.Canceller.CancelDeleted()
	if s.Await(ctx, postrider.Withdrawal{}); err != nil {
		s.Soon(ctx)
	}
}

// notEffectiveHeader is the header of a 202 that names the servers that may still act as before the
// change.
const notEffectiveHeader = "Not-Yet-Effective"

// noteEffect returns the status of the response. If the change is not in effect on all nodes, it
// replaces a 200 or 204 by 202 and adds the header notEffectiveHeader.
func (a *responseWriter) noteEffect(status int) int {
	n := a.info.notEffective
	if !n.Any() || status/100 != 2 {
		return status
	}
	a.Header().Set(notEffectiveHeader, apitypes.NotEffective{Servers: n.Nodes, Until: n.Until}.Header())
	return http.StatusAccepted
}

// takesEffect is added to the description of every operation that takes something away from an
// endpoint or account.
const takesEffect = " The response comes when the change is in effect: what arrives at the receiver later than 100 ms after it was sent by the new state, " +
	"except what a server sends that stood still in that moment. If a server does not confirm that within two seconds, the response is a 202: " +
	"the change is stored, and the header `" + notEffectiveHeader +
	"` says which servers may still act as before, and until when at the latest."

// describeEffect adds the 202 to the document of an operation. The 202 has the same body as the 200
// or 204.
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
