package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// This file has the part of [Rollups] that all stores share: the encoding of deltas, and the
// addition of deltas to rollups. Each store inserts and deletes deltas itself, and implements
// RollupRows.

// DeltaKey identifies the endpoint and the event type whose deliveries are counted.
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

// Record counts an attempt or the end of a delivery; see [postrider.Counts.Record].
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

// Bytes returns the delta in its stored form. For each key it has the two ids, the length of the
// type, the type, and the counts. The result is nil if nothing was recorded.
func (d *Deltas) Bytes() []byte {
	var text []byte
	for i, key := range d.keys {
		text = append(append(text, key.Account[:]...), key.Endpoint[:]...)
		text = append(binary.AppendUvarint(text, uint64(len(key.Type))), key.Type...)
		text, _ = d.counts[i].AppendBinary(text) // AppendBinary never returns an error
	}
	return text
}

var errDelta = errors.New("not a stored delta")

// readDelta decodes a stored delta and calls add for each of its keys.
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

// Scope names the object that a rollup counts: the id of an account, the id of an endpoint, or
// zero for the whole store. An account and an endpoint never have the same id.
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
	Type  string // empty: the rollup is for all types together
	Step  Step
	At    int64 // Unix time of the rollup's beginning
}

// Time returns the beginning of the rollup.
func (k RollupKey) Time() time.Time { return time.Unix(k.At, 0).UTC() }

// of returns the key of the rollup of the longer step that contains this one.
func (k RollupKey) of(step Step) RollupKey {
	k.Step, k.At = step, k.At-k.At%int64(step.Duration()/time.Second)
	return k
}

// Compare orders keys by step, then time, then scope, then type. [Positions] uses the same order.
func (k RollupKey) Compare(other RollupKey) int {
	return cmp.Or(cmp.Compare(k.Step, other.Step), cmp.Compare(k.At, other.At),
		bytes.Compare(k.Scope[:], other.Scope[:]), cmp.Compare(k.Type, other.Type))
}

// RollupValue has the counts and durations of a rollup.
type RollupValue struct {
	postrider.Counts
	Responses postrider.Sketch // durations of the attempts that got a response
	Latencies postrider.Sketch // times from the creation of deliveries to their success
}

// Merge adds the other value to v.
func (v *RollupValue) Merge(other *RollupValue) error {
	v.Add(other.Counts)
	return errors.Join(v.Responses.Merge(other.Responses), v.Latencies.Merge(other.Latencies))
}

// RollupBytes is the stored form of a [RollupValue].
type RollupBytes struct{ Counts, Responses, Latencies []byte }

// Bytes returns the stored form of the value.
func (v *RollupValue) Bytes() (b RollupBytes) {
	b.Counts, _ = v.AppendBinary(nil) // these three methods never return an error
	b.Responses, _ = v.Responses.MarshalBinary()
	b.Latencies, _ = v.Latencies.MarshalBinary()
	return b
}

// Value decodes the stored form.
func (b RollupBytes) Value() (v RollupValue, err error) {
	counts, rest, err := postrider.ReadCounts(b.Counts)
	if len(rest) > 0 {
		err = postrider.ErrCounts
	}
	v.Counts = counts
	return v, errors.Join(err, v.Responses.UnmarshalBinary(b.Responses), v.Latencies.UnmarshalBinary(b.Latencies))
}

// Positions say how far rollups were added to the next longer step. The element [Minutes] is the
// key of the last minute that was added to its hour; the element [Hours] is the key of the last
// hour that was added to its day. The order is by [RollupKey.Compare].
//
// If a fold changes a rollup that was already added to the longer step, the fold makes the same
// change in the longer step. So each count is in each step exactly once, even if it is folded
// late.
type Positions [2]RollupKey

// passed reports whether the rollup of the key was already added to the longer step.
func (p Positions) passed(key RollupKey) bool {
	return key.Step < Days && key.Compare(p[key.Step]) <= 0
}

// RollupRows reads and writes a store's rollups within one transaction. The transaction has
// locked all rollups.
type RollupRows interface {
	// Read returns the stored values of the keys. The result has no entry for a key without a row.
	Read(keys []RollupKey) (map[RollupKey]*RollupValue, error)

	// Types returns, for each scope, the event types that have rollups.
	Types(scopes []Scope) (map[Scope][]string, error)

	// Write stores the values of the keys, and replaces those that exist.
	Write(keys []RollupKey, values map[RollupKey]*RollupValue) error
}

// rollupChanges has, for each key, the value to add to its rollup.
type rollupChanges map[RollupKey]*RollupValue

// at returns the value to add to the rollup of the key. If there is none yet, at creates an empty
// one.
func (c rollupChanges) at(key RollupKey) *RollupValue {
	value := c[key]
	if value == nil {
		value = &RollupValue{}
		c[key] = value
	}
	return value
}

// keys returns the keys, sorted by [RollupKey.Compare].
func (c rollupChanges) keys() []RollupKey {
	keys := make([]RollupKey, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, RollupKey.Compare)
	return keys
}

// Folding adds up deltas and nodes' durations in memory. Its method Store adds the sums to the
// stored rollups.
type Folding struct {
	minutes rollupChanges
	most    map[Scope]int // the greatest number of types with their own rollups, by scope; 0 means MaxAllTypes
}

// Delta adds a stored delta. The time is when the delta was inserted.
func (f *Folding) Delta(at time.Time, text []byte) error {
	err := readDelta(text, func(key DeltaKey, counts postrider.Counts) {
		f.add(at, key, func(v *RollupValue) { v.Add(counts) })
	})
	if err != nil {
		return fmt.Errorf("read a delta of %s: %w", at.Format(time.RFC3339), err)
	}
	return nil
}

// Seen adds the durations that a node has measured.
func (f *Folding) Seen(all []Seen) (err error) {
	for i := range all {
		f.add(all[i].At, all[i].DeltaKey, func(v *RollupValue) { err = errors.Join(err, v.Merge(&all[i].RollupValue)) })
	}
	return err
}

// add calls change for each of the six rollups of the key. The scopes are the whole store, the
// account and the endpoint; each has one rollup for all types and one for the key's type.
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

// Store adds the sums to the stored rollups, and to the rollups of longer steps if [Positions]
// requires it.
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

// storedRollups has the rollups that were read. A nil value says that the key has no row.
type storedRollups map[RollupKey]*RollupValue

// read reads the rollups of the keys, except those that are in s already.
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

// capTypes counts a type as OtherTypes if its scope has too many types. A type that already has a
// row for this minute is accepted without a query; nearly every type has one. For the others,
// capTypes reads the types of their scopes.
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

// store adds the changes to the stored rollups. If a changed rollup was already added to the next
// step, store changes the next step's rollup too.
func (c rollupChanges) store(rows RollupRows, p Positions, stored storedRollups) error {
	for step := range Days {
		for key, value := range c {
			if key.Step == step && p.passed(key) {
				if err := c.at(key.of(step + 1)).Merge(value); err != nil {
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

// rollUpAfter is the wait after the end of a minute or an hour before it is added to the longer
// step. A delta that is folded later changes both rollups, which is correct but costs more.
const rollUpAfter = 2 * time.Minute

// RollUpBefore returns a time. The rollups of this step that began before that time may be rolled
// up now.
func (s Step) RollUpBefore(now time.Time) time.Time {
	return now.Add(-rollUpAfter - s.Duration()).Add(time.Second)
}

// RollupRow is a stored rollup.
type RollupRow struct {
	RollupKey
	RollupValue
}

// RollUpRows adds the rows in passing to the next longer step, and returns the new positions. The
// rows must be sorted by key and directly follow the position of their step.
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

// JoinRollups makes rollups of q.Step from stored rollups of this step and of shorter steps. The
// rows may be in any order.
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
