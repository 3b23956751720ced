package postrider_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

// sketchOf returns a sketch of the durations.
func sketchOf(durations []time.Duration) (s postrider.Sketch) {
	for _, d := range durations {
		s.Add(d)
	}
	return s
}

// marshalled returns the stored form of the sketch.
func marshalled(t interface{ Fatal(...any) }, s postrider.Sketch) []byte {
	text, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var someDurations = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
	micros := math.Exp(rapid.Float64Range(0, math.Log(float64(1000*24*time.Hour/time.Microsecond))).Draw(t, "log of µs"))
	return time.Duration(micros) * time.Microsecond
}), 1, 300)

func TestASketchIsOnePercentOffAtMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		durations := someDurations.Draw(t, "durations")
		s := sketchOf(durations)
		slices.Sort(durations)
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			exact, got := durations[int(q*float64(len(durations)-1))], s.Quantile(q)
			if off := math.Abs(float64(got-exact)) / float64(exact); off > 0.01 {
				t.Fatalf("Quantile(%v) = %v, want %v within 1 %%; it is %.2f %% off", q, got, exact, 100*off)
			}
		}
		if s.Count() != uint64(len(durations)) {
			t.Fatalf("Count() = %d, want %d", s.Count(), len(durations))
		}
	})
}

func TestMergedSketchesAreTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := someDurations.Draw(t, "a"), someDurations.Draw(t, "b"), someDurations.Draw(t, "c")
		whole := marshalled(t, sketchOf(slices.Concat(a, b, c)))
		for _, order := range [][][]time.Duration{{a, b, c}, {c, a, b}, {b, c, a}, {c, b, a}} {
			var merged postrider.Sketch
			for _, durations := range order {
				if err := merged.Merge(sketchOf(durations)); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(marshalled(t, merged), whole) {
				t.Fatalf("merged in another order, it is another sketch")
			}
		}
	})
}

func TestAMergeLeavesTheOtherSketchAlone(t *testing.T) {
	t.Parallel()
	var sum postrider.Sketch
	one := sketchOf([]time.Duration{sec})
	for range 2 {
		if err := sum.Merge(one); err != nil {
			t.Fatal(err)
		}
	}
	sum.Add(sec)
	if one.Count() != 1 || one.Quantile(0.5) != sum.Quantile(0.5) || sum.Count() != 3 {
		t.Errorf("counts = %d and %d, want 1 and 3", one.Count(), sum.Count())
	}
}

func TestAStoredSketchIsReadAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := marshalled(t,
			sketchOf(rapid.SliceOf(rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })).Draw(t, "durations")))
		var read postrider.Sketch
		if err := read.UnmarshalBinary(text); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(marshalled(t, read), text) {
			t.Fatalf("it is stored as other bytes the second time")
		}
	})
}

func TestSketchesWithOtherBoundsAreNotMerged(t *testing.T) {
	t.Parallel()
	var wide postrider.Sketch
	if err := wide.UnmarshalBinary([]byte{1, 40, 1, 7, 3}); err != nil { // γ = 1.04
		t.Fatal(err)
	}
	s := sketchOf([]time.Duration{sec})
	if err := s.Merge(wide); !errors.Is(err, postrider.ErrSketch) || s.Count() != 1 {
		t.Errorf("Merge = %v with a count of %d, want ErrSketch and 1", err, s.Count())
	}
}

func TestWhatIsNoSketchIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{
		"another version":          {2, 20, 1, 7, 3},
		"cut off":                  {1, 20, 2, 7, 3},
		"no buckets":               {1, 20, 0},
		"no growth":                {1, 0, 1, 7, 3},
		"an empty bucket":          {1, 20, 1, 7, 0},
		"a bucket twice":           {1, 20, 2, 7, 3, 0, 3},
		"bytes behind it":          {1, 20, 1, 7, 3, 9},
		"more buckets than bytes":  {1, 20, 0xff, 0xff, 0xff, 0xff, 0x0f, 7, 3},
		"a bucket out of reach":    {1, 20, 1, 0xff, 0xff, 0xff, 0x0f, 3},
		"a count that is too long": {1, 20, 1, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	} {
		if err := new(postrider.Sketch).UnmarshalBinary(text); !errors.Is(err, postrider.ErrSketch) {
			t.Errorf("%s: %v, want ErrSketch", name, err)
		}
	}
}

func FuzzSketch(f *testing.F) {
	f.Add([]byte{1, 20, 1, 7, 3})
	f.Add([]byte{1, 20, 2, 0, 1, 0x80, 0x08, 200, 1})
	f.Fuzz(func(t *testing.T, text []byte) {
		var s postrider.Sketch
		if err := s.UnmarshalBinary(text); err != nil {
			if !errors.Is(err, postrider.ErrSketch) {
				t.Fatal(err)
			}
			return
		}
		again := marshalled(t, s)
		var read postrider.Sketch
		if err := read.UnmarshalBinary(again); err != nil || read.Count() != s.Count() {
			t.Fatalf("read again: %v, count %d of %d", err, read.Count(), s.Count())
		}
		if p50, p99 := s.Quantile(0.5), s.Quantile(0.99); p50 < 0 || p99 < p50 {
			t.Fatalf("p50 %v, p99 %v", p50, p99)
		}
	})
}
