package schedule

import "strings"

// host is the state of one host name. All endpoints at the name share its limit
// of attempts, also those of different accounts, so that no account can
// direct all of the node's requests at one host.
type host struct {
	name      string
	endpoints int   // of those in memory, how many are at this host
	inFlight  int   // attempts of all of them
	full      bool  // set when an endpoint had to wait for a slot of the host; cleared once none waits
	stuck     int   // leases of its endpoints that are counted in prefetch as stuck because the host is full
	waiting   queue // endpoints that could start a delivery and wait for a slot of the host
}

// hosts are the hosts of the endpoints in memory.
type hosts struct {
	prefetch *prefetch
	byName   map[string]*host
}

// hostOf returns the host name of a canonical URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, ']') {
		rest = rest[:i]
	}
	return rest
}

// move makes the endpoint one of the named host, with its attempts in flight.
func (hs *hosts) move(ep *endpoint, name string) {
	if ep.host != nil && ep.host.name == name {
		return
	}
	hs.leave(ep)
	h := hs.byName[name]
	if h == nil {
		h = &host{name: strings.Clone(name), waiting: queue{kind: inReady}}
		hs.byName[h.name] = h
	}
	h.endpoints++
	h.inFlight += ep.inFlight
	ep.host = h
}

// leave takes the endpoint from its host. A host without endpoints is forgotten.
func (hs *hosts) leave(ep *endpoint) {
	h := ep.host
	if h == nil {
		return
	}
	h.endpoints--
	h.inFlight -= ep.inFlight
	h.waiting.remove(ep)
	if h.endpoints == 0 {
		hs.prefetch.clear(&h.stuck)
		delete(hs.byName, h.name)
	}
	ep.host = nil
}

// notFull notes that the host is not full any more, if no endpoint waits for it. The
// leases of its endpoints are not stuck then.
func (hs *hosts) notFull(h *host) {
	if h.full && h.waiting.len() == 0 {
		h.full = false
		hs.prefetch.clear(&h.stuck)
	}
}
