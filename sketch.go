package postrider

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Sketch summarises durations so that it can tell their quantiles. It counts durations in buckets
// whose bounds grow by 2 %, so a quantile is at most 1 % off, for all durations. Empty buckets take
// no space.
//
// The zero Sketch is empty and ready to use. Sketches can be merged in any order with the same
// result. A Sketch is not safe for concurrent use.
type Sketch struct {
	// Growth of the bounds in thousandths: sketchGrowth, or the growth of the stored sketch; 0: the
	// sketch is empty.
	growth  uint64
	count   uint64
	buckets []sketchBucket // sorted by index
}

// sketchBucket counts the durations d, in microseconds, with γ^(index-1) < d <= γ^index.
// Bucket 0 counts durations of at most 1 µs.
type sketchBucket struct {
	index uint32
	count uint64
}

const (
	// sketchGrowth is γ-1 in thousandths: γ = 1.02. So the middle of a bucket is at most
	// (γ-1)/(γ+1) = 0.99 % away from each duration in the bucket.
	sketchGrowth = 20

	// sketchVersion is the first byte of a stored sketch.
	sketchVersion = 1

	// maxSketchIndex is the highest index in a stored sketch. With the least growth, γ = 1.001, the
	// longest [time.Duration] is in bucket 36,800.
	maxSketchIndex = 1 << 16
)

// ErrSketch says that some bytes are not a stored sketch, or that two sketches cannot be merged.
var ErrSketch = errors.New("not a sketch of this kind")

// gamma returns γ, the ratio between the upper bounds of two neighbouring buckets.
func gamma(growth uint64) float64 { return 1 + float64(growth)/1000 }

// logGamma is the logarithm of γ for all sketches that this version makes.
var logGamma = math.Log(gamma(sketchGrowth))

// Add counts a duration. A duration below a microsecond counts as a microsecond.
func (s *Sketch) Add(d time.Duration) {
	s.growth = sketchGrowth
	index := uint32(0)
	if micros := d.Microseconds(); micros > 1 {
		index = uint32(math.Ceil(math.Log(float64(micros)) / logGamma))
	}
	i, found := slices.BinarySearchFunc(s.buckets, index, compareBucket)
	if !found {
		s.buckets = slices.Insert(s.buckets, i, sketchBucket{index: index})
	}
	s.buckets[i].count++
	s.count++
}

func compareBucket(b sketchBucket, index uint32) int { return int(b.index) - int(index) }

// Merge adds the durations that the other sketch has counted. If the two sketches have different
// bucket bounds, it returns [ErrSketch] and changes nothing.
func (s *Sketch) Merge(other Sketch) error {
	switch {
	case other.count == 0:
		return nil
	case s.count == 0:
		*s = Sketch{growth: other.growth, count: other.count, buckets: slices.Clone(other.buckets)}
		return nil
	case s.growth != other.growth:
		return fmt.Errorf("merge buckets that grow by %d and by %d thousandths: %w", s.growth, other.growth, ErrSketch)
	}
	merged := make([]sketchBucket, 0, len(s.buckets)+len(other.buckets))
	a, b := s.buckets, other.buckets
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].index < b[0].index:
			merged, a = append(merged, a[0]), a[1:]
		case a[0].index > b[0].index:
			merged, b = append(merged, b[0]), b[1:]
		default:
			merged, a, b = append(merged, sketchBucket{a[0].index, a[0].count + b[0].count}), a[1:], b[1:]
		}
	}
	s.buckets = append(append(merged, a...), b...)
	s.count += other.count
	return nil
}

// Count returns how many durations were added.
func (s *Sketch) Count() uint64 { return s.count }

// Quantile returns the quantile q of the added durations, at most 1 % off: q = 0 is the shortest,
// 0.5 the median, 1 the longest. For an empty sketch it returns 0.
func (s *Sketch) Quantile(q float64) time.Duration {
	if s.count == 0 {
		return 0
	}
	place := uint64(min(max(q, 0), 1) * float64(s.count-1))
	passed := uint64(0)
	bucket := s.buckets[len(s.buckets)-1]
	for _, b := range s.buckets {
		if passed += b.count; passed > place {
			bucket = b
			break
		}
	}
	if bucket.index == 0 {
		return time.Microsecond
	}
	g := gamma(s.growth)
	nanos := math.Pow(g, float64(bucket.index)) * 2 / (g + 1) * float64(time.Microsecond)
	return time.Duration(min(nanos, float64(math.MaxInt64>>1)))
}

// MarshalBinary returns the stored form of the sketch. It is a version byte, then varints: the
// growth, the number of buckets, and two varints for each bucket. These are the difference of its
// index to the index before, and its count. The stored form of an empty sketch has no bytes.
func (s *Sketch) MarshalBinary() ([]byte, error) {
	if s.count == 0 {
		return nil, nil
	}
	text := make([]byte, 0, 4+3*len(s.buckets))
	text = append(text, sketchVersion)
	text = binary.AppendUvarint(text, s.growth)
	text = binary.AppendUvarint(text, uint64(len(s.buckets)))
	last := uint32(0)
	for _, b := range s.buckets {
		text = binary.AppendUvarint(text, uint64(b.index-last))
		text = binary.AppendUvarint(text, b.count)
		last = b.index
	}
	return text, nil
}

// UnmarshalBinary reads a stored sketch. If text is not a result of MarshalBinary, it returns
// [ErrSketch] and leaves the sketch unchanged.
func (s *Sketch) UnmarshalBinary(text []byte) error {
	if len(text) == 0 {
		*s = Sketch{}
		return nil
	}
	if text[0] != sketchVersion {
		return fmt.Errorf("version %d of a sketch: %w", text[0], ErrSketch)
	}
	r := varints{text: text[1:]}
	read := Sketch{growth: r.next()}
	n := r.next()
	if r.bad || read.growth == 0 || read.growth > 1000 || n == 0 || n > uint64(len(r.text)/2) {
		return fmt.Errorf("read the head of a sketch: %w", ErrSketch)
	}
	read.buckets = make([]sketchBucket, n)
	index := uint64(0)
	for i := range read.buckets {
		distance, count := r.next(), r.next()
		index += distance
		if r.bad || i > 0 && distance == 0 || distance > maxSketchIndex || index > maxSketchIndex || count == 0 ||
			count > math.MaxUint64>>1-read.count {
			return fmt.Errorf("read bucket %d of a sketch: %w", i, ErrSketch)
		}
		read.buckets[i] = sketchBucket{uint32(index), count}
		read.count += count
	}
	if len(r.text) > 0 {
		return fmt.Errorf("read the end of a sketch: %d bytes follow it: %w", len(r.text), ErrSketch)
	}
	*s = read
	return nil
}

// varints reads varints from text.
type varints struct {
	text []byte
	bad  bool // a varint was cut off or too long; next returns 0 from then on
}

func (r *varints) next() uint64 {
	v, n := binary.Uvarint(r.text)
	if n <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.text = r.text[n:]
	return v
}
