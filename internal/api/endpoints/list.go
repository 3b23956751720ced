package endpoints

import (
	"cmp"
	"context"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// listEndpoints lists endpoints. For the whole page it reads the secrets, which the warnings need,
// with one query, and the states with a few more.
func (s *Routes) listEndpoints(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of the account."`
	UID     string `query:"uid" doc:"Uid of the endpoint. It needs the account too."`
	IDs     string `query:"ids" doc:"Ids of at most 100 endpoints, separated by commas. Deleted ones are listed too."`
	Status  string `query:"status" enum:"enabled,paused,disabled"`
	Health  string `query:"health" enum:"healthy,warned,disabled" doc:"By state.health: the status of its health that was recorded last. It follows hours after the first failure, so an endpoint that is failing can be healthy; with failing=false it is not."`
	Circuit string `query:"circuit" enum:"closed,open,half_open" doc:"By state.circuit."`
	Failing string `query:"failing" enum:"true,false" doc:"By state.failing_since. True: only endpoints that have accepted nothing for a minute, or since their circuit opened. False: only the others."`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Endpoint]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	if in.UID != "" && account.IsZero() {
		return nil, rest.Invalid("account", postrider.FaultRequired, "is required with uid")
	}
	wanted, err := endpointIDs(in.IDs)
	if err != nil {
		return nil, err
	}
	metadata, err := rest.MetadataFilter(ctx)
	if err != nil {
		return nil, err
	}
	query := store.EndpointQuery{
		Account: account, IDs: wanted, UID: in.UID, Status: postrider.EndpointStatus(in.Status), Health: postrider.HealthStatus(in.Health),
		Circuit: postrider.CircuitStatus(in.Circuit), Metadata: metadata, Paging: in.Paging.Of(),
	}
	if in.Failing != "" {
		query.Failing = new(in.Failing == "true")
	}
	endpoints, err := s.Store.Endpoints(ctx, query)
	if err != nil {
		return nil, err
	}
	ids := make([]postrider.EndpointID, 0, len(endpoints.Items))
	for _, e := range endpoints.Items {
		ids = append(ids, e.ID)
	}
	secrets, err := s.Store.Secrets(ctx, ids...)
	if err != nil {
		return nil, err
	}
	states, err := s.statesOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	of := map[postrider.EndpointID][]postrider.Secret{}
	for _, secret := range secrets {
		of[secret.Endpoint] = append(of[secret.Endpoint], secret)
	}
	return rest.RespondPage(func(e postrider.Endpoint) apitypes.Endpoint {
		view := s.viewEndpoint(e, of[e.ID])
		view.State = states[e.ID]
		return view
	})(endpoints, nil)
}

// endpointIDs parses a list of ids that are separated by commas.
func endpointIDs(list string) (ids []postrider.EndpointID, err error) {
	if list == "" {
		return nil, nil
	}
	texts := strings.Split(list, ",")
	if len(texts) > maxEndpointIDs {
		return nil, rest.Invalid("ids", postrider.FaultWrongCount, "must have at most 100 ids")
	}
	for _, text := range texts {
		id, err := postrider.ParseID[postrider.EndpointID](text)
		if err != nil {
			return nil, rest.Invalid("ids", postrider.FaultMalformed, "must be ids of endpoints")
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// maxEndpointIDs is the largest number of ids in the parameter ids.
const maxEndpointIDs = 100

// statesOf returns the states of endpoints, by endpoint id.
func (s *Routes) statesOf(ctx context.Context, ids []postrider.EndpointID) (map[postrider.EndpointID]*apitypes.EndpointState, error) {
	states, err := s.Store.EndpointStates(ctx, ids...)
	if err != nil {
		return nil, err
	}
	of := map[postrider.EndpointID]*apitypes.EndpointState{}
	var failing []postrider.EndpointID
	for _, state := range states {
		state.Circuit = s.Clock.ShownCircuit(state.Circuit)
		of[state.Endpoint] = viewState(state)
		if c := state.Circuit; !c.FailingSince.IsZero() || !c.Closed() || state.Health.Status == postrider.HealthDisabled {
			failing = append(failing, state.Endpoint)
		}
	}
	failures, err := render.LastFailures(ctx, s.Store, failing...)
	for id, failure := range failures {
		of[id].LastFailure = failure
	}
	return of, err
}

// viewState returns the state of an endpoint in the form of a response. The times of its circuit
// must be wall-clock times.
func viewState(s store.EndpointState) *apitypes.EndpointState {
	view := &apitypes.EndpointState{
		Health: cmp.Or(s.Health.Status, postrider.Healthy), HealthReason: render.OrNull(s.Health.Reason),
		Circuit: cmp.Or(s.Circuit.Status, postrider.CircuitClosed), FailingSince: render.TimeOrNull(s.Circuit.FailingSince),
		OldestDueMS: render.OrNull(s.DueFor.Milliseconds()), Pending: s.Pending, PendingMore: s.Pending == store.MaxPending,
		Delivered: s.Delivered, Dead: s.Dead,
	}
	if ended := s.Delivered + s.Dead; ended > 0 {
		rate := float64(s.Delivered) / float64(ended)
		view.SuccessRate = &rate
	}
	return view
}
