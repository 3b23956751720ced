package schedule

import "strings"

// host is the state of one host name. All endpoints with that host name share its limit of
// attempts, including endpoints of different accounts. So no account can direct all of the node's
// requests at one host.
type host struct {
	name      string
	endpoints int   // number of its endpoints in memory
	inFlight  int   // attempts in flight to all of its endpoints
	full      bool  // set when an endpoint had to wait for a slot of the host; cleared when none waits
	stuck     int   // leases of its endpoints that prefetch counts as stuck because the host is full
	waiting   queue // endpoints that could start a delivery but wait for a slot of the host
}

// hosts has the hosts of the endpoints in memory.
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

// move assigns the endpoint, with its attempts in flight, to the host with the name.
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

// leave removes the endpoint from its host. A host without endpoints is forgotten.
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

// notFull records that the host is not full any more, if no endpoint waits for it. Then the leases
// of its endpoints are no longer stuck.
func (hs *hosts) notFull(h *host) {
	if h.full && h.waiting.len() == 0 {
		h.full = false
		hs.prefetch.clear(&h.stuck)
	}
}
