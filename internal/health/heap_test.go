package health

import "testing"

func TestGarbageHasRoomAsTheHeapGrows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		inUse      uint64 // bytes
		want, room int    // percent, MiB
	}{
		{"none yet", 0, 400, 0},
		{"an idle server", 8 << 20, 400, 32},
		{"a busy one", 24 << 20, 400, 96},
		{"100,000 endpoints", 140 << 20, 68, 96},
		{"a million", 1400 << 20, 50, 700},
	} {
		got := gcPercent(tt.inUse)
		if room := int(tt.inUse>>20) * got / 100; got != tt.want || room > tt.room || room < tt.room-1 {
			t.Errorf("%s: %d %%, so %d MiB, want %d and %d", tt.name, got, room, tt.want, tt.room)
		}
	}
}

func TestTheLimitOfMemoryLeavesRoomForGarbage(t *testing.T) {
	t.Parallel()
	for inUse, want := range map[uint64]int64{0: 160 << 20, 60 << 20: 160 << 20, 140 << 20: 242 << 20, 1 << 30: 1568 << 20} {
		if got := memoryLimit(inUse); got != want {
			t.Errorf("%d MiB in use: a limit of %d MiB, want %d", inUse>>20, got>>20, want>>20)
		}
	}
}
