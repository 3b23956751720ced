package postrider

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Counts says how many attempts were made in a period, and how many deliveries ended. Attempts and
// deliveries are counted separately: a delivery can have many attempts, and a skipped delivery has
// none.
//
// The store counts in the transaction that records, so each attempt and each final status is
// counted exactly once. An attempt is counted by the outcome that was recorded first. A lost
// attempt stays counted as lost even if its response is settled later.
type Counts struct {
	Attempts [CountedOutcomes]int64 // by outcome, in the order of [Outcomes]
	// Attempts by their number: first attempts, second attempts, …; the last element also has all
	// higher numbers.
	Numbers       [CountedNumbers]int64
	Ended         [EndStatuses]int64 // deliveries by their final status, in the order of [Statuses], without pending
	FirstAccepted int64              // first attempts that were accepted
}

const (
	// CountedOutcomes is the number of outcomes that are counted: all but [OutcomeNone], which is
	// the last of [Outcomes].
	CountedOutcomes = 9

	// CountedNumbers is the number of elements of Counts.Numbers.
	CountedNumbers = 16

	// EndStatuses is the number of final statuses.
	EndStatuses = 4
)

// Record counts one record of the history: an attempt, or a decision without a request. after is
// the status of the delivery after that record.
func (c *Counts) Record(outcome Outcome, number int, after Status) {
	if i := slices.Index(Outcomes, outcome); i >= 0 && i < CountedOutcomes {
		c.Attempts[i]++
		c.Numbers[min(max(number, 1), CountedNumbers)-1]++
		if number == 1 && outcome == OutcomeAccepted {
			c.FirstAccepted++
		}
	}
	if i := slices.Index(Statuses, after); i > 0 {
		c.Ended[i-1]++
	}
}

// Add adds the counts of other.
func (c *Counts) Add(other Counts) {
	for i, n := range other.Attempts {
		c.Attempts[i] += n
	}
	for i, n := range other.Numbers {
		c.Numbers[i] += n
	}
	for i, n := range other.Ended {
		c.Ended[i] += n
	}
	c.FirstAccepted += other.FirstAccepted
}

// Outcome returns the number of attempts with the outcome.
func (c *Counts) Outcome(o Outcome) int64 {
	if i := slices.Index(Outcomes, o); i >= 0 && i < CountedOutcomes {
		return c.Attempts[i]
	}
	return 0
}

// Status returns the number of deliveries that ended with the status.
func (c *Counts) Status(s Status) int64 {
	if i := slices.Index(Statuses, s); i > 0 {
		return c.Ended[i-1]
	}
	return 0
}

// AllAttempts returns the number of attempts.
func (c *Counts) AllAttempts() (all int64) {
	for _, n := range c.Attempts {
		all += n
	}
	return all
}

// SuccessRate returns delivered / (delivered + dead); ok is false if both are 0. Cancelled and
// skipped deliveries do not count, because they say nothing about an endpoint.
func (c *Counts) SuccessRate() (rate float64, ok bool) {
	return share(c.Status(Delivered), c.Status(Delivered)+c.Status(Dead))
}

// FirstAttemptRate returns the accepted share of all first attempts; ok is false if there were no
// first attempts.
func (c *Counts) FirstAttemptRate() (rate float64, ok bool) {
	return share(c.FirstAccepted, c.Numbers[0])
}

func share(n, of int64) (float64, bool) {
	if of == 0 {
		return 0, false
	}
	return float64(n) / float64(of), true
}

// countsVersion is the first byte of stored counts. The other constants are the numbers of the
// stored fields, which never change: Attempts from 0, Numbers from 32, Ended from 64, and
// FirstAccepted at 96.
const (
	countsVersion = 1

	attemptSlots      = 0
	numberSlots       = 32
	endedSlots        = 64
	firstAcceptedSlot = 96
)

// ErrCounts says that some bytes are not stored counts.
var ErrCounts = errors.New("not stored counts")

// field returns the count with the given field number; nil: no count has that number.
func (c *Counts) field(slot uint64) *int64 {
	switch {
	case slot < CountedOutcomes:
		return &c.Attempts[slot]
	case slot >= numberSlots && slot < numberSlots+CountedNumbers:
		return &c.Numbers[slot-numberSlots]
	case slot >= endedSlots && slot < endedSlots+EndStatuses:
		return &c.Ended[slot-endedSlots]
	case slot == firstAcceptedSlot:
		return &c.FirstAccepted
	}
	return nil
}

// AppendBinary appends the counts in their stored form: a version byte, then varints. The first
// varint is the number of fields that are not 0. Two varints follow for each such field: its number
// and its count.
func (c *Counts) AppendBinary(text []byte) ([]byte, error) {
	fields := 0
	pairs := make([]byte, 0, 32)
	add := func(first uint64, counts []int64) {
		for i, n := range counts {
			if n > 0 {
				fields++
				pairs = binary.AppendUvarint(binary.AppendUvarint(pairs, first+uint64(i)), uint64(n))
			}
		}
	}
	add(attemptSlots, c.Attempts[:])
	add(numberSlots, c.Numbers[:])
	add(endedSlots, c.Ended[:])
	add(firstAcceptedSlot, []int64{c.FirstAccepted})
	return append(binary.AppendUvarint(append(text, countsVersion), uint64(fields)), pairs...), nil
}

// ReadCounts reads stored counts from the beginning of text, and returns the bytes after them. If
// text does not begin with stored counts, it returns [ErrCounts].
func ReadCounts(text []byte) (c Counts, rest []byte, err error) {
	if len(text) == 0 || text[0] != countsVersion {
		return c, nil, fmt.Errorf("read the version of counts: %w", ErrCounts)
	}
	r := varints{text: text[1:]}
	fields := r.next()
	last := uint64(0)
	for i := range fields {
		slot, n := r.next(), r.next()
		field := c.field(slot)
		if r.bad || field == nil || i > 0 && slot <= last || n == 0 || n > math.MaxInt64>>8 {
			return Counts{}, nil, fmt.Errorf("read field %d of counts: %w", i, ErrCounts)
		}
		*field, last = int64(n), slot
	}
	if r.bad {
		return Counts{}, nil, fmt.Errorf("read counts that are cut off: %w", ErrCounts)
	}
	return c, r.text, nil
}
