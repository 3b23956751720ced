package testkit

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/postrider/postrider"
)

// hostileZone is the end of every name that the rig's DNS knows.
const hostileZone = ".hostile.test"

// The addresses of the names: one of this machine, and two that no sender may connect to.
var (
	ours     = netip.MustParseAddr("127.0.0.1")
	private  = netip.MustParseAddr("10.66.0.1")
	metadata = netip.MustParseAddr("fd00:ec2::254")
)

// lie returns the answer of the DNS to a question about one name.
type lie func(q question) reply

// question is a question to the DNS.
type question struct {
	name  dnsmessage.Name
	kind  dnsmessage.Type
	tcp   bool
	asked int // how many questions of this kind were asked, this one included
}

// reply is the answer to a question.
type reply struct {
	code    dnsmessage.RCode
	records []dnsmessage.Resource
	mute    bool   // no answer
	short   bool   // over UDP, only that the answer is truncated
	garbage string // bytes to send instead of a message
}

func hostileNames() []Hostile {
	answer := []step{request, say(ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok")}
	named := func(h Hostile, name string, z lie) Hostile {
		h.name, h.lie, h.steps = name, z, answer
		return h.over("http")
	}
	lost := func(err, what, name string, z lie) Hostile { return named(unreachable(what, err), name, z) }
	// A lookup that several attempts share has a time-out of its own, which can end during an
	// attempt.
	mute := func(what, name string, z lie) Hostile {
		return named(timedOutAt("dns_timeout", what).or(postrider.OutcomeUnreachable, "dns_timeout"), name, z)
	}
	code := func(c dnsmessage.RCode) lie { return func(question) reply { return reply{code: c} } }
	return in("dns", "S-11",
		lost("dns_not_found", "NXDOMAIN", "nxdomain", code(dnsmessage.RCodeNameError)),
		lost("dns_failed", "SERVFAIL", "servfail", code(dnsmessage.RCodeServerFailure)),
		lost("dns_failed", "REFUSED", "refused", code(dnsmessage.RCodeRefused)),
		lost("dns_not_found", "no address", "empty", code(dnsmessage.RCodeSuccess)),
		mute("no answer", "mute", func(question) reply { return reply{mute: true} }),
		mute("an answer that is none", "garbage", func(question) reply { return reply{garbage: "\x00\xff"} }),
		named(unreachable("1,000 addresses where nobody is", "connection_refused"), "many", addresses(manyAddresses()...)).rows("S-12 T-07"),
		named(blocked("1,000 addresses, one of them private"), "many-one", addresses(append(manyAddresses(), private)...)).rows("S-12"),
		named(blocked("a public A and a private AAAA"), "mixed", addresses(ours, metadata)).rows("S-12"),
		named(blocked("a private A and a public AAAA"), "mixed6", addresses(private, netip.IPv6Loopback())).rows("S-12"),
		named(blocked("an AAAA that is a private A"), "mapped", addresses(ours, netip.AddrFrom16(private.As16()))).rows("S-03 S-12"),
		named(accepted("TTL 0, another address each time").or(postrider.OutcomeBlocked, "target_forbidden"), "flip", flip),
		lost("dns_not_found", "a CNAME to itself", "loop", chain(0)).rows("S-15"),
		named(accepted("a chain of 20 CNAMEs"), "chain", chain(20)).rows("S-15"),
		named(accepted("a CNAME as long as names get"), "long", longAlias).rows("S-15"),
		named(accepted("a record that nobody can read, too"), "svcb", unreadable).rows("S-15"),
		named(accepted("cut off over UDP, whole over TCP"), "short", cutOff(addresses(ours))),
		lost("dns_failed", "cut off over UDP, cut off over TCP", "shorter",
			cutOff(func(question) reply { return reply{garbage: "\x00\xff\x00"} })),
		mute("cut off over UDP, silence over TCP", "shortest", cutOff(func(question) reply { return reply{mute: true} })),
	)
}

// addresses answers with the addresses of the list that fit the kind of question.
func addresses(list ...netip.Addr) lie {
	return func(q question) reply { return reply{records: resources(q.name, q.kind, list)} }
}

func resources(name dnsmessage.Name, kind dnsmessage.Type, list []netip.Addr) []dnsmessage.Resource {
	var found []dnsmessage.Resource
	for _, a := range list {
		switch {
		case kind == dnsmessage.TypeA && a.Is4():
			found = append(found, resource(name, kind, &dnsmessage.AResource{A: a.As4()}))
		case kind == dnsmessage.TypeAAAA && a.Is6():
			found = append(found, resource(name, kind, &dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	return found
}

// resource returns a record with a time to live of 0.
func resource(name dnsmessage.Name, kind dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET},
		Body:   body,
	}
}

// manyAddresses returns 1,000 addresses of this machine on which nothing listens.
func manyAddresses() []netip.Addr {
	var list []netip.Addr
	for i := range 1000 {
		list = append(list, netip.AddrFrom4([4]byte{127, 66, byte(i >> 8), byte(i)}))
	}
	return list
}

// flip answers with an address of this machine and with a private address, in turn.
func flip(q question) reply {
	if q.asked%2 == 0 {
		return addresses(private)(q)
	}
	return addresses(ours)(q)
}

// chain answers with that many CNAMEs and the address at their end. With 0 links, the name is a
// CNAME of itself.
func chain(links int) lie {
	return func(q question) reply {
		var r reply
		at := q.name
		for i := range links {
			next := dnsmessage.MustNewName("link-" + strconv.Itoa(i) + hostileZone + ".")
			r.records = append(r.records, resource(at, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: next}))
			at = next
		}
		if links == 0 {
			r.records = append(r.records, resource(at, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: at}))
			return r
		}
		r.records = append(r.records, resources(at, q.kind, []netip.Addr{ours})...)
		return r
	}
}

// longAlias answers with a CNAME of one-letter labels that has the maximal length.
func longAlias(q question) reply {
	long := dnsmessage.MustNewName(strings.Repeat("a.", 127))
	return reply{records: append(
		[]dnsmessage.Resource{resource(q.name, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: long})},
		resources(long, q.kind, []netip.Addr{ours})...,
	)}
}

// unreadable adds an HTTPS record whose parameters are truncated.
func unreadable(q question) reply {
	const kindHTTPS = dnsmessage.Type(65)
	bad := resource(q.name, kindHTTPS, &dnsmessage.UnknownResource{Type: kindHTTPS, Data: []byte("\x00\x01\x00\x00\x01\xff\xff")})
	return reply{records: append([]dnsmessage.Resource{bad}, resources(q.name, q.kind, []netip.Addr{ours})...)}
}

// cutOff answers a question over UDP with a truncated reply, so that the question is repeated over
// TCP.
func cutOff(z lie) lie {
	return func(q question) reply {
		if !q.tcp {
			return reply{short: true}
		}
		return z(q)
	}
}
