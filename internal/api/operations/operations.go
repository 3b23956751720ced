// Package operations is the part of the API that shows the state of the nodes, and the endpoints
// that need a person. The number of rows that it reads is limited, however many endpoints there
// are.
package operations

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Cluster lists the nodes that share the store.
type Cluster interface {
	// Members lists the nodes, by incarnation.
	Members(ctx context.Context, owns postrider.EndpointID) ([]store.Member, error)
}

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Circuits is the method of store.Queue.
	Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error)
	// Endpoints is the method of store.Directory.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// EndpointStates is the method of store.Rollups.
	EndpointStates(ctx context.Context, ids ...postrider.EndpointID) ([]store.EndpointState, error)
	// LastFailures is the method of store.Rollups.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
	// Backlog is the method of store.Rollups.
	Backlog(ctx context.Context, q store.BacklogQuery) (store.Backlog, error)
	// Due is the method of store.Queue.
	Due(ctx context.Context, d store.Due) ([]store.DueLane, error)
	// DeadLetterGroups is the method of store.Finder.
	DeadLetterGroups(ctx context.Context, q store.DeadLetterGroupQuery) (store.Page[store.DeadLetterGroup], error)
	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Routes serves the state of the nodes and the endpoints that need a person.
type Routes struct {
	*rest.Shared

	Store   Store
	Cluster Cluster // nil: only this process uses the store
	Host    string  // the name of this server's machine
}

// Register registers the routes of the nodes and of the endpoints that need a person.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "list-nodes", Path: "GET /nodes",
		Summary:     "List the servers that share the store",
		Description: "With a store that one process uses, this is the server that responds.",
		Scope:       postrider.ScopeAdmin,
	}, s.listNodes)
	rest.Handle(rt, rest.Route{
		Name: "list-troubled-endpoints", Path: "GET /troubled-endpoints",
		Summary: "List the endpoints that need a person most",
		Scope:   postrider.ScopeWebhooksRead,
	}, s.listTroubled)
}

func (s *Routes) listNodes(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.List[apitypes.Node]], error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if s.Cluster == nil {
		alone := apitypes.Node{ID: 1, Host: s.Host, Status: "alive", Shards: store.Shards, SeenAt: render.Instant(now)}
		return rest.Respond(apitypes.List[apitypes.Node]{Data: []apitypes.Node{alone}}), nil
	}
	members, err := s.Cluster.Members(ctx, postrider.EndpointID{})
	if err != nil {
		return nil, err
	}
	nodes := make([]apitypes.Node, 0, len(members))
	for _, m := range members {
		n := apitypes.Node{
			ID: m.Incarnation, Host: m.Host, Status: "alive", Shards: m.Shards,
			StartedAt: render.TimeOrNull(m.StartedAt), SeenAt: render.Instant(m.SeenAt),
		}
		switch {
		case m.Dead:
			n.Status = "dead"
		case m.Leaving:
			n.Status = "leaving"
		}
		nodes = append(nodes, n)
	}
	return rest.Respond(apitypes.List[apitypes.Node]{Data: nodes}), nil
}

const (
	// maxTroubled is the number of endpoints in the list.
	maxTroubled = 10
	// The largest numbers of rows that one request reads: failing circuits, groups of dead letters,
	// disabled endpoints, and lanes or stopped endpoints.
	maxFailing     = 1000
	maxGroups      = 250
	maxDisabled    = 250
	maxWaiting     = 1000
	maxOwn         = 100             // endpoints of a caller's account that are checked
	failingForLong = 5 * time.Minute // shorter failures are not listed
	waitingForLong = 5 * time.Minute // shorter waits are not listed
	reasonDisabled = "disabled"
	reasonOpen     = "circuit_open"
	reasonFailing  = "failing"
	reasonWaiting  = "waiting"
	reasonDead     = "dead_letters"
)

// troubled is an endpoint that may need a person.
type troubled struct {
	endpoint postrider.EndpointID
	circuit  postrider.Circuit
	reasons  []string
	letters  int       // number of dead letters that were counted
	more     bool      // more dead letters exist; the count has a limit
	since    time.Time // since when it fails or is disabled; zero: it does neither
	// waiting is the time for which its oldest delivery has been due. 0: the delivery has not been
	// due for long, or the endpoint fails.
	waiting time.Duration
}

// listTroubled collects the endpoints that need a person, and lists the most urgent ones. The
// endpoint with the latest failure is first, because a person is least likely to know of it.
func (s *Routes) listTroubled(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.TroubledEndpoints], error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	account := rest.InfoOf(ctx).Caller.Account
	found := map[postrider.EndpointID]*troubled{}
	answer := apitypes.TroubledEndpoints{Data: []apitypes.TroubledEndpoint{}}
	if answer.OpenCircuits, err = s.addFailing(ctx, found, account, now); err != nil {
		return nil, err
	}
	if err := s.addDisabled(ctx, found, account); err != nil {
		return nil, err
	}
	if err := s.addWaiting(ctx, found, account); err != nil {
		return nil, err
	}
	if err := s.addDead(ctx, found, account); err != nil {
		return nil, err
	}
	urgent := slices.SortedFunc(maps.Values(found), func(a, b *troubled) int {
		return cmp.Or(b.since.Compare(a.since), cmp.Compare(b.waiting, a.waiting),
			cmp.Compare(b.letters, a.letters), b.endpoint.Compare(a.endpoint))
	})
	if err := s.answerTroubled(ctx, &answer, urgent); err != nil {
		return nil, err
	}
	return rest.Respond(answer), nil
}

// answerTroubled counts the endpoints that need a person, and adds the first ones to the answer.
// urgent is sorted. Deleted endpoints are left out. Only endpoints whose single reason is dead
// letters can be deleted.
func (s *Routes) answerTroubled(ctx context.Context, answer *apitypes.TroubledEndpoints, urgent []*troubled) error {
	if len(urgent) == 0 {
		return nil
	}
	others := slices.IndexFunc(urgent, func(t *troubled) bool { return t.since.IsZero() && t.waiting == 0 })
	if others < 0 {
		others = len(urgent)
	}
	for _, t := range urgent[:others] {
		if t.since.IsZero() {
			answer.Waiting++
		} else {
			answer.Failing++
		}
	}
	live, err := s.liveEndpoints(ctx, slices.Concat(urgent[:min(others, maxTroubled)], urgent[others:]))
	if err != nil {
		return err
	}
	var failing []postrider.EndpointID
	for i, t := range urgent {
		e, ok := live[t.endpoint]
		if !ok {
			continue
		}
		if i >= others {
			answer.DeadOnly++
		}
		if len(answer.Data) == maxTroubled {
			continue
		}
		if answer.Data = append(answer.Data, viewTroubled(t, e)); !t.since.IsZero() {
			failing = append(failing, e.ID)
		}
	}
	failures, err := render.LastFailures(ctx, s.Store, failing...)
	for i, e := range answer.Data {
		answer.Data[i].LastFailure = failures[e.Endpoint]
	}
	return err
}

// liveEndpoints reads the endpoints that are not deleted.
func (s *Routes) liveEndpoints(ctx context.Context, some []*troubled) (map[postrider.EndpointID]postrider.Endpoint, error) {
	ids := make([]postrider.EndpointID, 0, len(some))
	for _, t := range some {
		ids = append(ids, t.endpoint)
	}
	found, err := s.Store.Endpoints(ctx, store.EndpointQuery{
		Account: rest.InfoOf(ctx).Caller.Account, IDs: ids, Paging: store.Paging{Limit: len(ids)},
	})
	live := make(map[postrider.EndpointID]postrider.Endpoint, len(ids))
	for _, e := range found.Items {
		if e.Status != postrider.EndpointDeleted {
			live[e.ID] = e
		}
	}
	return live, err
}

// viewTroubled returns an endpoint that needs a person, in the form of a response.
func viewTroubled(t *troubled, e postrider.Endpoint) apitypes.TroubledEndpoint {
	return apitypes.TroubledEndpoint{
		Endpoint: e.ID, Account: e.Account, URL: e.URL, Description: e.Description, Status: e.Status, Reasons: t.reasons,
		DeadLetters: t.letters, DeadMore: t.more,
		FailingSince: render.TimeOrNull(t.circuit.FailingSince), Since: render.TimeOrNull(t.since), ProbeAt: render.TimeOrNull(t.circuit.ProbeAt),
		OldestDueMS: render.OrNull(t.waiting.Milliseconds()),
	}
}

// of returns the entry of an endpoint, and makes the entry if necessary.
func of(found map[postrider.EndpointID]*troubled, id postrider.EndpointID) *troubled {
	if found[id] == nil {
		found[id] = &troubled{endpoint: id}
	}
	return found[id]
}

// addFailing adds the endpoints that fail. It returns the number of open circuits. A circuit whose
// cooldown has been over for long counts as none.
func (s *Routes) addFailing(ctx context.Context, found map[postrider.EndpointID]*troubled, account postrider.AccountID,
	now time.Time,
) (open int, _ error) {
	circuits, err := s.Store.Circuits(ctx, store.CircuitQuery{Failing: true, Account: account, Limit: maxFailing})
	if err != nil {
		return 0, err
	}
	for _, c := range circuits {
		c = s.Clock.ShownCircuit(c)
		reason := reasonOpen
		switch {
		case c.Closed() && now.Sub(c.FailingSince) < failingForLong:
			continue
		case c.Closed(), now.Sub(c.ProbeAt) > failingForLong: // nothing came to probe it with
			reason = reasonFailing
		default:
			open++
		}
		t := of(found, c.Endpoint)
		t.circuit, t.since, t.reasons = c, c.FailingSince, append(t.reasons, reason)
	}
	return open, nil
}

// addDisabled adds the endpoints that were disabled for their failures, by their last recorded
// health. An endpoint that a person disabled is not added.
func (s *Routes) addDisabled(ctx context.Context, found map[postrider.EndpointID]*troubled, account postrider.AccountID) error {
	endpoints, err := s.Store.Endpoints(ctx, store.EndpointQuery{
		Account: account, Status: postrider.EndpointDisabled, Health: postrider.HealthDisabled, Paging: store.Paging{Limit: maxDisabled},
	})
	for _, e := range endpoints.Items {
		t := of(found, e.ID)
		t.since, t.reasons = e.StatusSince, append([]string{reasonDisabled}, t.reasons...)
	}
	return err
}

// addWaiting adds the endpoints that have had a due delivery for long, although they are enabled
// and do not fail. The causes are that the endpoint throttles, or that its window or rate is too
// small for its events.
func (s *Routes) addWaiting(ctx context.Context, found map[postrider.EndpointID]*troubled, account postrider.AccountID) error {
	due, err := s.dueFor(ctx, account)
	if err != nil || len(due) == 0 {
		return err
	}
	// A person stopped these endpoints, so their deliveries may wait.
	for _, status := range []postrider.EndpointStatus{postrider.EndpointPaused, postrider.EndpointDisabled} {
		held, err := s.Store.Endpoints(ctx, store.EndpointQuery{Account: account, Status: status, Paging: store.Paging{Limit: maxWaiting}})
		if err != nil {
			return err
		}
		for _, e := range held.Items {
			delete(due, e.ID)
		}
	}
	for id, span := range due {
		if t := found[id]; t == nil {
			t = of(found, id)
			t.waiting, t.reasons = span, append(t.reasons, reasonWaiting)
		}
	}
	return nil
}

// dueFor returns, for each endpoint that has had a due delivery for long, for how long. The queue
// is not sorted by account. So for one account, dueFor reads the backlogs of single endpoints. It
// does so only if the backlog of the account has such a delivery, and only for the maxTroubled
// endpoints with the most pending deliveries.
func (s *Routes) dueFor(ctx context.Context, account postrider.AccountID) (map[postrider.EndpointID]time.Duration, error) {
	due := map[postrider.EndpointID]time.Duration{}
	note := func(id postrider.EndpointID, span time.Duration) {
		if span >= waitingForLong {
			due[id] = max(due[id], span)
		}
	}
	if account.IsZero() {
		lanes, err := s.Store.Due(ctx, store.Due{Max: maxWaiting})
		for _, lane := range lanes {
			note(lane.Endpoint, -lane.In)
		}
		return due, err
	}
	// The count is limited to 1, because only DueFor is needed.
	all, err := s.Store.Backlog(ctx, store.BacklogQuery{Account: account, Most: 1})
	if err != nil || all.DueFor < waitingForLong {
		return nil, err
	}
	own, err := s.Store.Endpoints(ctx, store.EndpointQuery{
		Account: account, Status: postrider.EndpointEnabled, Paging: store.Paging{Limit: maxOwn},
	})
	if err != nil {
		return nil, err
	}
	ids := make([]postrider.EndpointID, 0, len(own.Items))
	for _, e := range own.Items {
		ids = append(ids, e.ID)
	}
	states, err := s.Store.EndpointStates(ctx, ids...)
	if err != nil {
		return nil, err
	}
	states = slices.DeleteFunc(states, func(e store.EndpointState) bool { return e.Pending == 0 })
	slices.SortFunc(states, func(a, b store.EndpointState) int { return cmp.Compare(b.Pending, a.Pending) })
	for _, e := range states[:min(len(states), maxTroubled)] {
		backlog, err := s.Store.Backlog(ctx, store.BacklogQuery{Account: account, Endpoint: e.Endpoint, Most: 1})
		if err != nil {
			return nil, err
		}
		note(e.Endpoint, backlog.DueFor)
	}
	return due, nil
}

// addDead adds the endpoints with unresolved dead letters.
func (s *Routes) addDead(ctx context.Context, found map[postrider.EndpointID]*troubled, account postrider.AccountID) error {
	groups, err := s.Store.DeadLetterGroups(ctx, store.DeadLetterGroupQuery{Account: account, Paging: store.Paging{Limit: maxGroups}})
	if err != nil {
		return err
	}
	for i, g := range groups.Items {
		t := of(found, g.Endpoint)
		// The groups of one endpoint follow each other. So only the last endpoint of the page can
		// have more groups.
		t.more = t.more || g.Count == store.MaxGroupCount || groups.Next != "" && i == len(groups.Items)-1
		if t.letters == 0 {
			t.reasons = append(t.reasons, reasonDead)
		}
		t.letters += g.Count
	}
	return nil
}
