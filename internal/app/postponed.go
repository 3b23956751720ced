package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/egress"
)

// postponed remembers which attempts were not made lately, because this server lacks
// something, for /readyz.
type postponed struct {
	mu    sync.Mutex
	at    time.Time // of the last one
	why   postrider.Failure
	since time.Time // since when there was one each minute
	n     int       // since then
}

// postponedShown is for how long an attempt that was not made is shown: twice the longest
// wait of an endpoint, so that the report stays while the fault does.
const postponedShown = 2 * postrider.PostponedAtMost

func (p *postponed) add(why postrider.Failure) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.at) > postponedShown {
		p.since, p.n = now, 0
	}
	p.at, p.why = now, why
	p.n++
}

// note returns what the report of /readyz says; empty: no attempt was postponed lately.
func (p *postponed) note(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 || now.Sub(p.at) > postponedShown {
		return ""
	}
	return fmt.Sprintf("%d attempts were not made since %s, because this server lacks something: %s",
		p.n, p.since.UTC().Format(time.RFC3339), p.why)
}

// descriptors returns how many files this process may open, 0 if that is not known, and how
// many attempts may be in flight with that: as many as connections may be open. Where these
// are few, endpoints share what there is as they share any scarce slots.
func descriptors(ctx context.Context, concurrency int, log *slog.Logger) (files uint64, inFlight int) {
	files, err := doctor.OpenFileLimit()
	if err != nil {
		log.WarnContext(ctx, "the limit of open files is not known", "error", err)
		return 0, 0
	}
	inFlight = egress.Connections(files)
	if check := doctor.CheckOpenFiles(files, concurrency); check.Status != doctor.OK {
		log.WarnContext(ctx, "this process may open too few files", "found", check.Found, "remedy", check.Remedy, "attempts_in_flight", inFlight)
	}
	return files, inFlight
}

// localPorts returns how many ports connections of this machine may have; 0: that is not
// known, since the system is not Linux.
func localPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0
	}
	return max(0, last-first+1)
}
