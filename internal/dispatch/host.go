package dispatch

import "strings"

// host is the state of one host name. All endpoints at the name share its limit
// of attempts, also endpoints of different accounts, so that no account can
// direct all of the node's requests at one host.
type host struct {
	name      string
	endpoints int  // that are in memory
	inFlight  int  // attempts
	full      bool // it had no slot for one that waits
	stuck     int  // of what its endpoints lease, counted in the stock as what it keeps from starting
	waiting   ring // endpoints that could start something
}

// hostOf returns the name in a canonical URL.
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

// moveTo makes the endpoint one of the host.
func (c *core) moveTo(ep *endpoint, name string) {
	if ep.host != nil && ep.host.name == name {
		return
	}
	c.leaveHost(ep)
	h := c.hosts[name]
	if h == nil {
		h = &host{name: strings.Clone(name)}
		c.hosts[h.name] = h
	}
	h.endpoints++
	h.inFlight += ep.inFlight
	ep.host = h
}

// leaveHost takes the endpoint from its host, which is forgotten with its last
// endpoint.
func (c *core) leaveHost(ep *endpoint) {
	h := ep.host
	if h == nil {
		return
	}
	h.endpoints--
	h.inFlight -= ep.inFlight
	if h.waiting.remove(ep) {
		ep.startable = false
	}
	if h.endpoints == 0 {
		c.unstick(&h.stuck)
		delete(c.hosts, h.name)
	}
	ep.host = nil
}
