package routing

import (
	"context"
	"errors"
	"sync"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/filter/condition"
	"github.com/postrider/postrider/internal/store"
)

const (
	// mostConditions limits the conditions that a publish evaluates for one event.
	mostConditions = 1000
	// conditionUnits is what an evaluation takes of matchUnits, some 2 µs, and unitsOfCost what each unit
	// of its cost takes, some 100 ns.
	conditionUnits = 50
	unitsOfCost    = 2
	// decodedBytes is the number of bytes of JSON whose decoding for conditions takes a unit.
	decodedBytes = 4
	// failuresInARow is the number of events in a row for which a condition fails before its endpoint is
	// set aside.
	failuresInARow = 20
)

// conditioned is the condition of an endpoint. It remembers how often the evaluation has failed.
type conditioned struct {
	condition *condition.Condition

	mu     sync.Mutex
	last   postrider.EventID // the last event that was counted; one event may be matched several times
	failed int               // events in a row for which the evaluation failed
}

// compiled returns the condition of an endpoint; nil: it has none, or is set aside because it fails.
// There is no error, because the store sets an endpoint aside whose condition cannot be compiled.
func compiled(to *store.EndpointSnapshot) *conditioned {
	if to.Endpoint.Policy.Condition == "" || to.Endpoint.ConditionFailed {
		return nil
	}
	c, err := condition.Compile(to.Endpoint.Policy.Condition)
	if err != nil {
		return nil
	}
	return &conditioned{condition: c}
}

// count counts an evaluation. It reports whether the condition has failed for so many events in a row
// that its endpoint must be set aside. If that does not succeed, it is reported again later.
func (c *conditioned) count(event postrider.EventID, failed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !failed:
		c.failed = 0
		return false
	case event == c.last:
		return false
	}
	c.last = event
	c.failed++
	return c.failed%failuresInARow == 0
}

// matching compares one event with filters and conditions.
type matching struct {
	table     *Table // nil: failures of conditions do not count, because the event is of the past
	event     *postrider.Event
	filter    *filter.Event
	condition *condition.Event // nil: no condition was evaluated yet
}

// wants returns the endpoint if its condition holds for the event, or is nil. If the evaluation
// fails, it returns a copy that says so. Otherwise it returns nil.
func (m *matching) wants(c *conditioned, to *store.EndpointSnapshot) *store.EndpointSnapshot {
	if c == nil {
		return to
	}
	if m.condition == nil {
		m.condition = condition.Of(m.event)
		m.filter.Spend((len(m.event.Data) + len(m.event.About.Previous)) / decodedBytes)
	}
	holds, cost, err := c.condition.Holds(m.condition)
	m.filter.Spend(conditionUnits + unitsOfCost*cost)
	if m.table != nil && c.count(m.event.ID, err != nil) {
		m.table.failing.Add(to)
	}
	switch {
	case err != nil:
		failed := *to
		failed.FilterFailed = true
		return &failed
	case holds:
		return to
	}
	return nil
}

// decide returns the endpoints whose conditions hold, or fail. If conditions is nil, all do. It ends when
// the event has taken its units.
func (m *matching) decide(conditions []*conditioned, held []*store.EndpointSnapshot) (wanting []*store.EndpointSnapshot) {
	if conditions == nil {
		return held
	}
	for i, to := range held {
		if m.filter.Exceeded() {
			return nil
		}
		if to = m.wants(conditions[i], to); to != nil {
			wanting = append(wanting, to)
		}
	}
	return wanting
}

// conditionOf returns the condition of an endpoint that is in the table, or was; nil: it has none. See filterOf.
func (x *Table) conditionOf(to *store.EndpointSnapshot) *conditioned {
	if to.Endpoint.Policy.Condition == "" {
		return nil
	}
	x.mu.RLock()
	c, current := x.accounts[to.Endpoint.Account].conditions[to.Endpoint.ID], x.endpoints[to.Endpoint.ID] == to
	x.mu.RUnlock()
	if !current {
		c = compiled(to)
	}
	return c
}

// setFailingAside sets the endpoints aside whose conditions have failed for many events in a row.
func (x *Table) setFailingAside(ctx context.Context) error {
	var errs []error
	for _, to := range x.failing.Take(0) {
		errs = append(errs, x.opts.SetAside(ctx, to.Endpoint))
	}
	return errors.Join(errs...)
}
