package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// ledger records the answers that the publishers got.
type ledger struct {
	mu       sync.Mutex
	acked    map[postrider.EventID]string // types of the acknowledged events
	refusals int
	faults   []string
}

func (l *ledger) ack(id postrider.EventID, eventType string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.acked[id]; known {
		l.faults = append(l.faults, fmt.Sprintf("%s answers two publishes with different keys", id))
	}
	l.acked[id] = eventType
}

func (l *ledger) refused(error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
}

func (l *ledger) contradict(fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fault)
}

// verdict is the result of comparing the two ledgers.
type verdict struct {
	requests    int
	refusals    int
	missing     int // acknowledged events that a subscribed endpoint did not accept
	stray       int // accepted but never acknowledged; must be 0, since publishers never give up
	duplicates  int
	unexplained int
	open        int             // requests that were open at the receiver at the time of a kill
	answered    int             // requests that the receiver answered in the window before a kill
	oldest      time.Duration   // longest time from an unrecorded answer to its kill
	delays      []time.Duration // times from a start to the first request
	idle        int             // starts without a request
	faults      []string
}

// check compares the ledgers.
//
// A duplicate is an event that an endpoint accepted again. A kill between the two acceptances
// explains it, if the endpoint gave the first answer after the start of the window before that
// kill. Then the server died before the answer was on disk, or before it was sent. The number of
// duplicates is bounded too. For each kill it adds the requests that were open at the receiver and
// those that it had answered inside the window; more cannot have been in flight. Without kills the
// bound is 0.
func (l *ledger) check(r *receiver, window time.Duration, fanOut int) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := verdict{requests: r.requests, refusals: l.refusals, faults: append(l.faults, r.faults...)}
	for id, eventType := range l.acked {
		for _, path := range pathsOf(eventType, fanOut) {
			if len(r.arrivals[arrival{path, id}]) == 0 {
				v.missing++
				v.faults = append(v.faults, fmt.Sprintf("%s did not arrive at %s", id, path))
			}
		}
	}
	v.checkArrivals(l, r, window)
	for _, s := range r.starts {
		if s.first.IsZero() {
			v.idle++
			continue
		}
		v.delays = append(v.delays, s.first.Sub(s.at))
	}
	slices.Sort(v.delays)
	return v
}

// checkArrivals checks the requests that arrived. The caller has locked both ledgers.
func (v *verdict) checkArrivals(l *ledger, r *receiver, window time.Duration) {
	for _, k := range r.kills {
		v.open += k.open
	}
	for a, times := range r.arrivals {
		if _, known := l.acked[a.event]; !known {
			v.stray++
			v.faults = append(v.faults, fmt.Sprintf("%s arrived at %s and was never acknowledged", a.event, a.path))
		}
		for i, at := range times {
			if answeredInWindow(r.kills, at, window) {
				v.answered++
			}
			if i == 0 {
				continue
			}
			v.duplicates++
			k, explained := explainedBy(r.kills, times[i-1], at, window)
			if explained {
				v.oldest = max(v.oldest, k.at.Sub(times[i-1]))
				continue
			}
			v.unexplained++
			v.faults = append(v.faults, fmt.Sprintf("%s arrived at %s again after %v, without a kill; it was first accepted %s",
				a.event, a.path, at.Sub(times[i-1]), beside(r.kills, times[i-1])))
		}
	}
}

// explainedBy returns the kill that explains why an endpoint accepted an event twice.
func explainedBy(kills []kill, first, second time.Time, window time.Duration) (kill, bool) {
	i := slices.IndexFunc(kills, func(k kill) bool {
		return first.After(k.at.Add(-window)) && first.Before(k.at.Add(openTime)) && second.After(k.at)
	})
	if i < 0 {
		return kill{}, false
	}
	return kills[i], true
}

// beside says how long before the next kill and after the last kill an instant is.
func beside(kills []kill, at time.Time) string {
	before, after := "no kill", "no kill"
	for _, k := range kills {
		if k.at.After(at) {
			after = fmt.Sprintf("a kill %v later", k.at.Sub(at).Round(time.Millisecond))
			break
		}
		before = fmt.Sprintf("%v after a kill", at.Sub(k.at).Round(time.Millisecond))
	}
	return before + ", " + after
}

// openTime is how long after a kill the receiver may still accept a request that the server sent
// before. One request takes 20 ms. On a busy machine, requests waited in the receiver's sockets for
// 280 ms.
const openTime = time.Second

func answeredInWindow(kills []kill, at time.Time, window time.Duration) bool {
	return slices.ContainsFunc(kills, func(k kill) bool { return !at.After(k.at) && k.at.Sub(at) < window })
}

// String returns the report: a line for each number, and the first faults.
func (v verdict) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "  requests received %d, publishes repeated %d\n  missing %d, never acknowledged %d\n"+
		"  duplicates %d, unexplained %d; at the kills %d requests were open and %d answered in the windows before\n"+
		"  the oldest answer that a kill kept from being recorded was %v old\n",
		v.requests, v.refusals, v.missing, v.stray, v.duplicates, v.unexplained, v.open, v.answered, v.oldest.Round(time.Millisecond))
	if n := len(v.delays); n > 0 {
		fmt.Fprintf(&text, "  from a start of a server to the first request after it: median %v, longest %v, of %d; %d were killed before\n",
			v.delays[n/2].Round(time.Millisecond), v.delays[n-1].Round(time.Millisecond), n, v.idle)
	}
	for _, fault := range v.faults[:min(10, len(v.faults))] {
		text.WriteString("  ! " + fault + "\n")
	}
	return text.String()
}

func (v verdict) err() error {
	if v.missing+v.unexplained+len(v.faults) > 0 || v.duplicates > v.open+v.answered {
		return errors.New("the ledgers do not agree")
	}
	return nil
}
