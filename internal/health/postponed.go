package health

import (
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// Postponed remembers which attempts were not made lately, because this server lacks
// something, for /readyz.
type Postponed struct {
	mu    sync.Mutex
	at    time.Time // of the last one
	why   postrider.Failure
	since time.Time // since when there was one each minute
	n     int       // since then
}

// postponedShown is for how long an attempt that was not made is shown: twice the longest
// wait of an endpoint, so that the report stays while the fault does.
const postponedShown = 2 * postrider.PostponedAtMost

// Add notes an attempt that was not made.
func (p *Postponed) Add(why postrider.Failure) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.at) > postponedShown {
		p.since, p.n = now, 0
	}
	p.at, p.why = now, why
	p.n++
}

// Note returns what the report of /readyz says; empty: no attempt was postponed lately.
func (p *Postponed) Note() string {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 || now.Sub(p.at) > postponedShown {
		return ""
	}
	return fmt.Sprintf("%d attempts were not made since %s, because this server lacks something: %s",
		p.n, p.since.UTC().Format(time.RFC3339), p.why)
}
