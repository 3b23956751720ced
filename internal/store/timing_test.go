package store_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestATimingIsKeptInFewBytes(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := []struct {
		name   string
		timing postrider.Timing
		bytes  int
	}{
		{"none", postrider.Timing{}, 0},
		{"a reused connection", postrider.Timing{FirstByte: 12 * ms, Reused: true}, 3},
		{"a new connection", postrider.Timing{DNS: 2 * ms, Connect: 20 * ms, TLS: 45 * ms, FirstByte: 110 * ms}, 12},
		{"an address without a name", postrider.Timing{Connect: 90 * time.Microsecond, FirstByte: ms}, 4},
		{"a lookup that failed", postrider.Timing{DNS: 5 * time.Second}, 8},
		{
			"the longest",
			postrider.Timing{DNS: 30 * time.Second, Connect: 30 * time.Second, TLS: 30 * time.Second, FirstByte: 30 * time.Second},
			17,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stored := store.EncodeTiming(test.timing)
			got, err := store.DecodeTiming(stored)
			if got != test.timing || err != nil {
				t.Errorf("read %+v, %v, want %+v", got, err, test.timing)
			}
			if len(stored) != test.bytes {
				t.Errorf("%d bytes, want %d", len(stored), test.bytes)
			}
		})
	}
	if _, err := store.DecodeTiming([]byte{0, 0x80}); err == nil {
		t.Error("a timing that is cut is read")
	}
}
