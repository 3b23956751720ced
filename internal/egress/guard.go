package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard decides which URLs, ports and addresses may be reached. It never changes: new rules need a
// restart, so no idle connection is older than the rules.
type guard struct {
	schemes       []string
	ports         []uint16 // nil: any
	allowsPrivate bool     // some addresses that are not public are allowed
	guardian      *ssrf.Guardian
}

// metadataAddresses are the addresses at which clouds give every machine its credentials, according
// to the documentation of the clouds. They stay forbidden even if an operator allows a range that
// contains them. Some are public addresses, others are private.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),    // most clouds
	netip.MustParseAddr("169.254.170.2"),      // AWS ECS
	netip.MustParseAddr("169.254.170.23"),     // AWS EKS
	netip.MustParseAddr("fd00:ec2::254"),      // AWS
	netip.MustParseAddr("fd00:ec2::23"),       // AWS EKS
	netip.MustParseAddr("fd20:ce::254"),       // Google Cloud
	netip.MustParseAddr("168.63.129.16"),      // Azure's wire server
	netip.MustParseAddr("100.100.100.200"),    // Alibaba Cloud
	netip.MustParseAddr("fd00:100::100:200"),  // Alibaba Cloud
	netip.MustParseAddr("169.254.0.23"),       // Tencent Cloud
	netip.MustParseAddr("169.254.42.42"),      // Scaleway
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("192.0.0.192"),        // Oracle Cloud Classic
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle Cloud
	netip.MustParseAddr("fd00:a9fe:a9fe::1"),  // Linode
	netip.MustParseAddr("fe80::a9fe:a9fe"),    // OpenStack
}

// isNever reports whether the address is forbidden even if the operator allows it: one of
// metadataAddresses, or 0.0.0.0 or ::, which name no receiver and connect to this machine. An
// IPv4-mapped address counts as its IPv4 address. A zone is ignored.
func isNever(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return ip.IsUnspecified() || slices.Contains(metadataAddresses, ip)
}

// errForbidden is part of every error that the guard returns for an address. Its text is for
// operators; attempts and API errors say only that the target is forbidden.
var errForbidden = errors.New("target is forbidden")

// newGuard returns the guard for a Reach. The ranges that are not public come from package ssrf; a
// test compares them with IANA's registries. The first rule that names an address decides about the
// address. The order is isNever, Allow, Deny, the ranges that are not public. Every other address
// is allowed.
func newGuard(o Reach) *guard {
	g := &guard{schemes: []string{"https"}, ports: o.Ports, allowsPrivate: len(o.Allow) > 0}
	if o.AllowHTTP {
		g.schemes = append(g.schemes, "http")
	}
	if o.AnyPort {
		g.ports = nil
	}
	allow4, allow6 := split(o.Allow)
	deny4, deny6 := split(o.Deny)
	g.guardian = ssrf.New(
		ssrf.WithPorts(g.ports...), // no port in the list: any port
		ssrf.WithAllowedV4Prefixes(allow4...),
		ssrf.WithAllowedV6Prefixes(allow6...),
		ssrf.WithDeniedV4Prefixes(deny4...),
		ssrf.WithDeniedV6Prefixes(deny6...),
	)
	return g
}

// split sorts prefixes by family. A prefix of IPv4-mapped addresses (::ffff:0:0/96) counts as IPv4,
// because addresses are unmapped before they are checked.
func split(prefixes []netip.Prefix) (v4, v6 []netip.Prefix) {
	for _, p := range prefixes {
		if p.Addr().Is4In6() && p.Bits() >= 96 { // addresses are checked unmapped
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return v4, v6
}

// PrivatePrefixes returns the loopback addresses and the private networks,
// for [Reach].Allow during development.
func PrivatePrefixes() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fc00::/7"),
	}
}

// control is called by [net.Dialer] before each connect. It gets the IP address to connect to,
// after the name or an unusual spelling was resolved.
//
// This check is the one that counts. Two other checks refuse earlier and with a better text: parse
// refuses a URL with a forbidden address, resolve a name with one. Between those and the connect an
// address could still change. For example, a name of an attacker resolves to 93.184.216.34 when it
// is checked and, with a time to live of zero, to 127.0.0.1 when it is dialed (DNS rebinding). At
// control only one address is left: the one that the kernel connects to.
func (g *guard) control(_ context.Context, network, address string, c syscall.RawConn) error {
	return forbid(address, g.guardian.Safe(network, address, c))
}

// check does what control does, for an address that a proxy dials for this program.
func (g *guard) check(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil {
		err = g.guardian.SafeAddrPort(to)
	}
	return forbid(address, err)
}

// forbid returns an error if found is one, or if the address is forbidden by isNever. The guardian
// may allow such an address as part of a range.
func forbid(address string, found error) error {
	if to, err := netip.ParseAddrPort(address); err == nil && isNever(to.Addr()) {
		found = errors.Join(found, fmt.Errorf("%s is always forbidden", to.Addr()))
	}
	if found != nil {
		return errors.Join(errForbidden, found)
	}
	return nil
}

// allows reports whether connections to the address may be made.
func (g *guard) allows(ip netip.Addr) bool {
	return ip.Zone() == "" && !isNever(ip) && g.guardian.SafeAddr(ip.Unmap()) == nil
}

// allowsPort reports whether connections to the port may be made.
func (g *guard) allowsPort(port uint16) bool {
	return g.ports == nil || slices.Contains(g.ports, port)
}

// allowsName checks a name without the DNS, when a URL is stored. Only the addresses of localhost
// are known without the DNS.
func (g *guard) allowsName(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return g.allows(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	// A name of one label has another meaning in every network. It makes sense only where private
	// targets are allowed.
	return g.allowsPrivate || strings.Contains(host, ".")
}
