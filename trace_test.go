package postrider_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

const (
	someTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	someSpan  = "00f067aa0ba902b7"
)

func TestParseTraceParent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"the specification's example", "00-" + someTrace + "-" + someSpan + "-01", true},
		{"not sampled", "00-" + someTrace + "-" + someSpan + "-00", true},
		{"flags that nobody knows", "00-" + someTrace + "-" + someSpan + "-ff", true},
		{"a later version", "cc-" + someTrace + "-" + someSpan + "-01", true},
		{"a later version with more", "cc-" + someTrace + "-" + someSpan + "-01-what-the-future-has", true},
		{"a later version with more that is not apart", "cc-" + someTrace + "-" + someSpan + "-01.what", false},
		{"version 00 with more", "00-" + someTrace + "-" + someSpan + "-01-more", false},
		{"version 00 with a hyphen more", "00-" + someTrace + "-" + someSpan + "-01-", false},
		{"version ff", "ff-" + someTrace + "-" + someSpan + "-01", false},
		{"capital letters in the trace", "00-" + strings.ToUpper(someTrace) + "-" + someSpan + "-01", false},
		{"capital letters in the span", "00-" + someTrace + "-" + strings.ToUpper(someSpan) + "-01", false},
		{"capital letters in the flags", "00-" + someTrace + "-" + someSpan + "-0A", false},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + someSpan + "-01", false},
		{"no span", "00-" + someTrace + "-" + strings.Repeat("0", 16) + "-01", false},
		{"a letter that is no digit", "00-" + someTrace[:31] + "g-" + someSpan + "-01", false},
		{"a hyphen in the trace", "00-" + someTrace[:31] + "--" + someSpan + "-01", false},
		{"another separator", "00_" + someTrace + "_" + someSpan + "_01", false},
		{"space in front", " 00-" + someTrace + "-" + someSpan + "-01", false},
		{"space behind", "00-" + someTrace + "-" + someSpan + "-01 ", false},
		{"a letter too few", "00-" + someTrace + "-" + someSpan + "-0", false},
		{"empty", "", false},
	} {
		p, ok := postrider.ParseTraceParent(tt.text)
		if ok != tt.ok || p.IsZero() == ok {
			t.Errorf("%s: ParseTraceParent(%q) = %x, %t, want %t", tt.name, tt.text, p, ok, tt.ok)
		}
		if ok && (p.Trace().String() != someTrace || p.Span().String() != someSpan) {
			t.Errorf("%s: trace %s, span %s", tt.name, p.Trace(), p.Span())
		}
	}
}

// FuzzParseTraceParent writes every accepted header and reads it again. The result must be equal.
func FuzzParseTraceParent(f *testing.F) {
	for _, seed := range []string{
		"", "00-" + someTrace + "-" + someSpan + "-01", "cc-" + someTrace + "-" + someSpan + "-01-x", "ff-" + someTrace + "-" + someSpan + "-01",
		"00-" + strings.Repeat("0", 32) + "-" + someSpan + "-01", "00-" + someTrace + "-" + someSpan + "-0\u0131", strings.Repeat("-", 55),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := postrider.ParseTraceParent(text)
		if !ok {
			if !p.IsZero() {
				t.Errorf("%q is refused, but is read as %x", text, p)
			}
			return
		}
		for _, sampled := range []bool{false, true} {
			written := string(postrider.AppendTraceParent(nil, p.Trace(), p.Span(), sampled))
			if again, ok := postrider.ParseTraceParent(written); !ok || again != p || written[3:52] != text[3:52] {
				t.Errorf("%q is written as %q, and read as %x, %t", text, written, again, ok)
			}
		}
	})
}

func TestParseTraceState(t *testing.T) {
	t.Parallel()
	many := func(n int, value string) (members string) {
		for i := range n {
			members += fmt.Sprintf(",k%d=%s", i, value)
		}
		return members[1:]
	}
	long := "long=" + strings.Repeat("x", 130)
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"none", nil, ""},
		{"empty", []string{""}, ""},
		{"one", []string{"rojo=00f067aa0ba902b7"}, "rojo=00f067aa0ba902b7"},
		{"a tenant", []string{"0fw529a3039@dt=FfSYGhzd6H4"}, "0fw529a3039@dt=FfSYGhzd6H4"},
		{"spaces around members, and one within", []string{" a=b c \t,, d=e"}, "a=b c,d=e"},
		{"two lines", []string{"a=1,b=2", "c=3"}, "a=1,b=2,c=3"},
		{"as many members as are allowed", []string{many(32, "v")}, many(32, "v")},
		{"one more", []string{many(33, "v")}, ""},
		{"a key twice", []string{"a=1", "b=2,a=3"}, ""},
		{"a key that begins with a digit", []string{"1a=1"}, ""},
		{"a capital letter in a key", []string{"A=1"}, ""},
		{"no value", []string{"a="}, ""},
		{"no key", []string{"=a"}, ""},
		{"a line break", []string{"a=b\r\nx: y"}, ""},
		{"a letter beyond ASCII", []string{"a=ä"}, ""},
		{"a value of 257 bytes", []string{"a=" + strings.Repeat("x", 257)}, ""},
		{
			"512 bytes",
			[]string{"a=" + strings.Repeat("x", 254) + ",b=" + strings.Repeat("x", 253)},
			"a=" + strings.Repeat("x", 254) + ",b=" + strings.Repeat("x", 253),
		},
		{
			"513 bytes: the last long member goes",
			[]string{"a=" + strings.Repeat("x", 254) + "," + "b=" + strings.Repeat("x", 250) + ",c=1"},
			"a=" + strings.Repeat("x", 254) + ",c=1",
		},
		{"long members go first", []string{long + "," + many(10, strings.Repeat("x", 40))}, many(10, strings.Repeat("x", 40))},
		{"then the last ones", []string{many(12, strings.Repeat("x", 40))}, many(11, strings.Repeat("x", 40))},
	} {
		if got := postrider.ParseTraceState(tt.lines); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzParseTraceState checks that a result is one line of a limited size, and that reading it again
// gives the same.
func FuzzParseTraceState(f *testing.F) {
	for _, seed := range []string{
		"", "a=1", "a=1,b@c=2 ,,d=3", "a=" + strings.Repeat("x", 256), strings.Repeat("a=1,", 40), "a=\r\nb: c",
		"ä=1",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		got := postrider.ParseTraceState([]string{first, second})
		if again := postrider.ParseTraceState([]string{got}); again != got {
			t.Errorf("%q is read again as %q", got, again)
		}
		if len(got) > 512 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q, %q: %q is passed on", first, second, got)
		}
	})
}

func TestAnEventHasTheTraceOfItsProducer(t *testing.T) {
	t.Parallel()
	e := postrider.Event{ID: postrider.EventID{1, 15: 2}}
	if got, want := e.Trace().String(), "0100000000000000"; !strings.HasPrefix(got, want) || strings.HasSuffix(got, "0000") {
		t.Errorf("without a producer's trace: %s, want %s from the event's id, and a hash", got, want)
	}
	if other := (&postrider.Event{ID: postrider.EventID{1, 15: 3}}); other.Trace() == e.Trace() {
		t.Errorf("two events have the trace %s", e.Trace())
	}
	e.TraceParent, _ = postrider.ParseTraceParent("00-" + someTrace + "-" + someSpan + "-00")
	if got := e.Trace().String(); got != someTrace {
		t.Errorf("with a producer's trace: %s, want %s", got, someTrace)
	}
}

func TestSpansOfAnEventDiffer(t *testing.T) {
	t.Parallel()
	event, seen := postrider.EventID{15: 1}, map[postrider.SpanID]string{}
	note := func(s postrider.SpanID, what string) {
		t.Helper()
		if other, twice := seen[s]; twice || s == (postrider.SpanID{}) {
			t.Errorf("%s has the span %s, which is zero or that of %s", what, s, other)
		}
		seen[s] = what
	}
	note(postrider.PublishSpan(event), "publish")
	note(postrider.CommitSpan(event), "commit")
	for i := range byte(100) {
		note(postrider.ChunkSpan(event, postrider.EndpointID{15: i}), fmt.Sprint("chunk ", i))
		for attempt := range 8 {
			note(postrider.AttemptSpan(postrider.DeliveryID{0: 1, 15: i}, attempt+1), fmt.Sprint("attempt ", attempt+1, " of delivery ", i))
		}
	}
	if again := postrider.PublishSpan(event); seen[again] != "publish" {
		t.Error("the span of a publish is not the same at the second look")
	}
}

func TestTheShareOfEventsIsSampled(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for _, share := range []float64{0, 0.01, 0.5, 1} {
		sampled := 0
		for i := range n {
			if postrider.Sampled(postrider.EventID{0: 1, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}, share) {
				sampled++
			}
		}
		// Five standard deviations of a binomial distribution.
		if off := math.Abs(float64(sampled) - share*n); off > 5*math.Sqrt(n*share*(1-share)) {
			t.Errorf("share %v: %d of %d", share, sampled, n)
		}
	}
	few, more := map[int]bool{}, map[int]bool{}
	for i := range 10_000 {
		id := postrider.EventID{14: byte(i >> 8), 15: byte(i)}
		if postrider.Sampled(id, 0.01) {
			few[i] = true
		}
		if postrider.Sampled(id, 0.1) || !few[i] {
			more[i] = true
		}
	}
	if len(more) != 10_000 {
		t.Error("an event of a small share is not in a larger one", cmp.Diff(len(more), 10_000))
	}
}
