package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// This file has the part of [Rollups] that the stores share: the encoding of deltas, and
// the fold of deltas to rollups. A store inserts and deletes deltas, and reads and writes
// rows; see RollupRows.

// DeltaKey names the deliveries of one endpoint and type.
type DeltaKey struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID
	Type     string
}

// Deltas counts the records of one transaction. The zero Deltas is empty.
type Deltas struct {
	places map[DeltaKey]int
	keys   []DeltaKey
	counts []postrider.Counts
}

// Record counts a record; see [postrider.Counts.Record].
func (d *Deltas) Record(key DeltaKey, outcome postrider.Outcome, number int, after postrider.Status) {
	i, known := d.places[key]
	if !known {
		if d.places == nil {
			d.places = map[DeltaKey]int{}
		}
		i = len(d.keys)
		d.places[key] = i
		d.keys, d.counts = append(d.keys, key), append(d.counts, postrider.Counts{})
	}
	d.counts[i].Record(outcome, number, after)
}

// Bytes returns the delta as it is stored: for each key its ids, the length of its type
// and the type, and its counts. Nil: nothing was recorded.
func (d *Deltas) Bytes() []byte {
	var text []byte
	for i, key := range d.keys {
		text = append(append(text, key.Account[:]...), key.Endpoint[:]...)
		text = append(binary.AppendUvarint(text, uint64(len(key.Type))), key.Type...)
		text, _ = d.counts[i].AppendBinary(text) // it has no error
	}
	return text
}

var errDelta = errors.New("not a stored delta")

// readDelta calls add for each key of a stored delta.
func readDelta(text []byte, add func(DeltaKey, postrider.Counts)) error {
	for len(text) > 0 {
		var key DeltaKey
		const ids = len(key.Account) + len(key.Endpoint)
		if len(text) < ids {
			return errDelta
		}
		copy(key.Account[:], text)
		copy(key.Endpoint[:], text[len(key.Account):])
		length, n := binary.Uvarint(text[ids:])
		text = text[ids+max(n, 0):]
		if n <= 0 || length > uint64(len(text)) {
			return errDelta
		}
		key.Type = string(text[:length])
		counts, rest, err := postrider.ReadCounts(text[length:])
		if err != nil {
			return fmt.Errorf("%w: %w", errDelta, err)
		}
		add(key, counts)
		text = rest
	}
	return nil
}

// Scope is the subject of a rollup: the id of an account or of an endpoint, or zero for
// everything. No account and endpoint have the same id.
type Scope [16]byte

func scopeOf(account postrider.AccountID, endpoint postrider.EndpointID) Scope {
	if !endpoint.IsZero() {
		return Scope(endpoint)
	}
	return Scope(account)
}

// RollupKey is the key of a rollup.
type RollupKey struct {
	Scope Scope
	Type  string // empty: all types together
	Step  Step
	At    int64 // Unix time of its beginning
}

// Time returns the beginning.
func (k RollupKey) Time() time.Time { return time.Unix(k.At, 0).UTC() }

// of returns the key of the longer step that the rollup is in.
func (k RollupKey) of(step Step) RollupKey {
	k.Step, k.At = step, k.At-k.At%int64(step.Duration()/time.Second)
	return k
}

// Compare orders keys as positions do: by step, then by time, then by scope and type.
func (k RollupKey) Compare(other RollupKey) int {
	return cmp.Or(cmp.Compare(k.Step, other.Step), cmp.Compare(k.At, other.At),
		slices.Compare(k.Scope[:], other.Scope[:]), cmp.Compare(k.Type, other.Type))
}

// RollupValue has the counts and durations of a rollup.
type RollupValue struct {
	postrider.Counts
	Responses postrider.Sketch // duration of the attempts that got a response
	Latencies postrider.Sketch // from the creation of deliveries to their end as delivered
}

// Merge adds the other value.
func (v *RollupValue) Merge(other *RollupValue) error {
	v.Add(other.Counts)
	return errors.Join(v.Responses.Merge(other.Responses), v.Latencies.Merge(other.Latencies))
}

// RollupBytes is a value as it is stored.
type RollupBytes struct{ Counts, Responses, Latencies []byte }

// Bytes returns the value as it is stored.
func (v *RollupValue) Bytes() (b RollupBytes) {
	b.Counts, _ = v.AppendBinary(nil) // they have no error
	b.Responses, _ = v.Responses.MarshalBinary()
	b.Latencies, _ = v.Latencies.MarshalBinary()
	return b
}

// Value reads a stored value.
func (b RollupBytes) Value() (v RollupValue, err error) {
	counts, rest, err := postrider.ReadCounts(b.Counts)
	if len(rest) > 0 {
		err = postrider.ErrCounts
	}
	v.Counts = counts
	return v, errors.Join(err, v.Responses.UnmarshalBinary(b.Responses), v.Latencies.UnmarshalBinary(b.Latencies))
}

// Positions say how far rollups were rolled up: of [Minutes], the last one that was added
// to its hour; of [Hours], the last one that was added to its day. The order is that of
// [RollupKey.Compare].
//
// If a fold changes a rollup that was already added to the longer step, it adds the same to
// the longer step. So each count is in each step once, however late it is folded.
type Positions [2]RollupKey

// passed reports whether the rollup was added to the one of the longer step.
func (p Positions) passed(key RollupKey) bool {
	return key.Step < Days && key.Compare(p[key.Step]) <= 0
}

// RollupRows reads and writes the rollups of a store, in one transaction that has locked
// all of them.
type RollupRows interface {
	// Read returns the stored values of the keys. A key without a row has none.
	Read(keys []RollupKey) (map[RollupKey]*RollupValue, error)

	// Types returns the event types that have rollups, for each scope.
	Types(scopes []Scope) (map[Scope][]string, error)

	// Write inserts or replaces the values of the keys.
	Write(keys []RollupKey, values map[RollupKey]*RollupValue) error
}

// rollupChanges are the values that are added to rollups, by their keys.
type rollupChanges map[RollupKey]*RollupValue

// at returns the value to be added to the rollup of the key.
func (c rollupChanges) at(key RollupKey) *RollupValue {
	value := c[key]
	if value == nil {
		value = &RollupValue{}
		c[key] = value
	}
	return value
}

// keys returns the keys in their order.
func (c rollupChanges) keys() []RollupKey {
	keys := make([]RollupKey, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, RollupKey.Compare)
	return keys
}

// Folding adds up deltas, and the durations of nodes, in memory. Store then adds the sums
// to the stored rollups.
type Folding struct {
	minutes rollupChanges
	most    map[Scope]int // types of the scope that are kept apart; 0: MaxAllTypes
}

// Delta adds a delta that was inserted at the time.
func (f *Folding) Delta(at time.Time, text []byte) error {
	err := readDelta(text, func(key DeltaKey, counts postrider.Counts) {
		f.add(at, key, func(v *RollupValue) { v.Add(counts) })
	})
	if err != nil {
		return fmt.Errorf("read a delta of %s: %w", at.Format(time.RFC3339), err)
	}
	return nil
}

// Seen adds the durations of a node.
func (f *Folding) Seen(all []Seen) (err error) {
	for i := range all {
		f.add(all[i].At, all[i].DeltaKey, func(v *RollupValue) { err = errors.Join(err, v.Merge(&all[i].RollupValue)) })
	}
	return err
}

// add calls change with each of the six values that the key belongs to: of everything, of
// the account and of the endpoint, for all types and for its own.
func (f *Folding) add(at time.Time, key DeltaKey, change func(*RollupValue)) {
	if f.minutes == nil {
		f.minutes, f.most = rollupChanges{}, map[Scope]int{}
	}
	f.most[Scope(key.Endpoint)] = MaxTypes
	for _, scope := range []Scope{{}, Scope(key.Account), Scope(key.Endpoint)} {
		for _, eventType := range []string{"", key.Type} {
			change(f.minutes.at(RollupKey{Scope: scope, Type: eventType, At: at.Unix()}.of(Minutes)))
		}
	}
}

// Store adds the sums to the rows, and to rows of longer steps; see [Positions].
func (f *Folding) Store(rows RollupRows, p Positions) error {
	stored := storedRollups{}
	err := stored.read(rows, f.minutes.keys())
	if err == nil {
		err = f.capTypes(rows, stored)
	}
	if err == nil {
		err = f.minutes.store(rows, p, stored)
	}
	if err != nil {
		return fmt.Errorf("fold deltas: %w", err)
	}
	return nil
}

// storedRollups are the rollups that were read; nil: there is none of the key.
type storedRollups map[RollupKey]*RollupValue

// read reads the keys that were not read before.
func (s storedRollups) read(rows RollupRows, keys []RollupKey) error {
	var unread []RollupKey
	for _, key := range keys {
		if _, known := s[key]; !known {
			unread, s[key] = append(unread, key), nil
		}
	}
	if len(unread) == 0 {
		return nil
	}
	found, err := rows.Read(unread)
	maps.Copy(s, found)
	return err
}

// capTypes turns types into OtherTypes where a scope has too many. Nearly always, each type
// has a row for the minute, so it is known. Only for a type without one, the types of its
// scope are read.
func (f *Folding) capTypes(rows RollupRows, stored storedRollups) error {
	var added []RollupKey
	var scopes []Scope
	for _, key := range f.minutes.keys() {
		if key.Type != "" && stored[key] == nil {
			added, scopes = append(added, key), append(scopes, key.Scope)
		}
	}
	if len(added) == 0 {
		return nil
	}
	slices.SortFunc(scopes, func(a, b Scope) int { return slices.Compare(a[:], b[:]) })
	known, err := rows.Types(slices.Compact(scopes))
	if err != nil {
		return err
	}
	for _, key := range added {
		types := known[key.Scope]
		switch {
		case slices.Contains(types, key.Type):
		case len(types) < cmp.Or(f.most[key.Scope], MaxAllTypes):
			known[key.Scope] = append(types, key.Type)
		default:
			value := f.minutes[key]
			delete(f.minutes, key)
			key.Type = OtherTypes
			if err := f.minutes.at(key).Merge(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// store adds the changes to the rows. A change of a row that was passed changes the row of
// the next step as well.
func (c rollupChanges) store(rows RollupRows, p Positions, stored storedRollups) error {
	for step := range Days {
		for _, key := range c.keys() {
			if key.Step == step && p.passed(key) {
				if err := c.at(key.of(step + 1)).Merge(c[key]); err != nil {
					return err
				}
			}
		}
	}
	keys := c.keys()
	if len(keys) == 0 {
		return nil
	}
	if err := stored.read(rows, keys); err != nil {
		return err
	}
	for _, key := range keys {
		if value := stored[key]; value != nil {
			if err := c[key].Merge(value); err != nil {
				return err
			}
		}
	}
	return rows.Write(keys, c)
}

// rollUpAfter is how long after its end a minute or an hour is added to the longer step.
// Later folds change both; that is correct, but more work.
const rollUpAfter = 2 * time.Minute

// RollUpBefore returns a time: the rollups of the step that began before it may be rolled
// up now.
func (s Step) RollUpBefore(now time.Time) time.Time {
	return now.Add(-rollUpAfter - s.Duration()).Add(time.Second)
}

// RollupRow is a stored rollup.
type RollupRow struct {
	RollupKey
	RollupValue
}

// RollUpRows adds rows, which follow the position of their step in order, to the next
// step, and returns the new positions.
func RollUpRows(rows RollupRows, p Positions, passing []RollupRow) (Positions, error) {
	changes := rollupChanges{}
	for i := range passing {
		r := &passing[i]
		if err := changes.at(r.of(r.Step + 1)).Merge(&r.RollupValue); err != nil {
			return p, err
		}
	}
	if err := changes.store(rows, p, storedRollups{}); err != nil {
		return p, fmt.Errorf("roll up: %w", err)
	}
	last := passing[len(passing)-1]
	p[last.Step] = last.RollupKey
	return p, nil
}

// JoinRollups makes rollups of q.Step from stored ones of this and of shorter steps, in
// any order.
func JoinRollups(q RollupQuery, rows []RollupRow) ([]Rollup, error) {
	joined := rollupChanges{}
	for i := range rows {
		if err := joined.at(rows[i].of(q.Step)).Merge(&rows[i].RollupValue); err != nil {
			return nil, fmt.Errorf("join rollups: %w", err)
		}
	}
	rollups := make([]Rollup, 0, len(joined))
	for _, key := range joined.keys() {
		rollups = append(rollups, Rollup{At: key.Time(), RollupValue: *joined[key]})
	}
	return rollups, nil
}
