package doctor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Listener describes the address of one listener.
type Listener struct {
	Name    Name
	Setting string // name of the setting, such as "listen"
	Address string
	Busy    bool  // another process listens there
	Ours    bool  // the other process is a Postrider server
	Err     error // why this process cannot listen there; nil if Busy
}

// Check judges the address.
func (l Listener) Check() Check {
	switch {
	case l.Busy && l.Ours:
		return Okay(l.Name, "%s is in use by a Postrider server", l.Address)
	case l.Busy:
		return Failure(l.Name, "%s is in use by another program", l.Address).Change("end that program, or set --%s to a free address", l.Setting)
	case l.Err != nil:
		return Failure(l.Name, "%s cannot be used: %s", l.Address, l.Err).
			Change("set --%s to an address of this machine, with a port above 1023 or the right to use it (CAP_NET_BIND_SERVICE)", l.Setting)
	case l.Name == ListenOps && Exposed(l.Address):
		return Okay(l.Name, "%s is free; other machines reach it, and it has no login, so keep it in a private network", l.Address)
	}
	return Okay(l.Name, "%s is free", l.Address)
}

// Exposed reports whether other machines can reach a listener at the address.
func Exposed(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsLoopback()
}

// Egress describes the addresses to which requests to receivers may go.
type Egress struct {
	Dev     bool
	HTTP    bool
	Allow   []netip.Prefix // networks allowed besides public addresses
	Ports   []uint16       // nil: every port
	Proxy   string         // with its password masked; empty: none
	Exposed bool           // other machines can reach the API
}

// Check describes the rules, and warns if they are only fit for development.
func (e Egress) Check() Check {
	schemes, where, ports := "https", "public addresses", "every port"
	if e.HTTP {
		schemes = "http and https"
	}
	if len(e.Allow) > 0 {
		where += " and " + joined(e.Allow)
	}
	if e.Ports != nil {
		ports = "the ports " + joined(e.Ports)
	}
	found := fmt.Sprintf("requests go to %s URLs at %s, on %s", schemes, where, ports)
	if e.Proxy != "" {
		found += ", through the proxy " + e.Proxy
	}
	switch {
	case e.Dev && e.Exposed:
		return Warning(EgressRules, "%s, with --dev, and other machines reach the API", found).
			Change("remove --dev; allow single networks with --egress-allow")
	case e.Exposed && slices.ContainsFunc(e.Allow, isWide):
		return Warning(EgressRules, "%s: customers can reach this machine, or whole networks of yours", found).
			Change("allow only single networks of receivers with --egress-allow, without loopback, and none larger than /8")
	case e.Dev:
		found += ", because of --dev"
	}
	return Okay(EgressRules, "%s", found)
}

// joined returns the elements, separated by commas.
func joined[T any](list []T) string {
	texts := make([]string, 0, len(list))
	for _, item := range list {
		texts = append(texts, fmt.Sprint(item))
	}
	return strings.Join(texts, ", ")
}

// isWide reports whether a network contains this machine or the metadata services of a cloud, or is
// larger than a private network.
func isWide(network netip.Prefix) bool {
	for _, address := range []string{"127.0.0.1", "::1", "169.254.169.254"} {
		if network.Contains(netip.MustParseAddr(address)) {
			return true
		}
	}
	if network.Addr().Is4() {
		return network.Bits() < 8
	}
	return network.Bits() < 7 // fc00::/7 is the largest private network
}

// CheckPublicURL judges --public-url, which is a valid URL or empty.
func CheckPublicURL(text string, dev, exposed bool) Check {
	u, err := url.Parse(text)
	switch {
	case text == "" && dev:
		return Okay(PublicURL, "not set; with --dev it is the address of the API")
	case text == "" && !exposed:
		return Okay(PublicURL, "not set: no links to the customer portal are made, and the API is for this machine alone")
	case text == "":
		return Warning(PublicURL, "not set: no links to the customer portal can be made").
			Change("set --public-url to the URL by which people reach this server, such as https://hooks.example.com")
	case err == nil && u.Scheme != "https" && Exposed(net.JoinHostPort(u.Hostname(), "80")):
		return Warning(PublicURL, "%s is not https: sessions and keys cross the network in the clear, and cookies are not Secure", text).
			Change("put a proxy with TLS in front (docs/operate/behind-a-proxy.md) and set --public-url to its https URL")
	}
	return Okay(PublicURL, "%s", text)
}

// CheckDNS judges the answer of the resolver for a name.
func CheckDNS(name string, addresses int, err error) Check {
	var failed *net.DNSError
	switch {
	case err == nil:
		return Okay(DNS, "%s has %s", name, count(addresses, "address", "addresses"))
	case errors.As(err, &failed) && failed.IsNotFound:
		return Warning(DNS, "the resolver answers, and does not know %s", name).
			Change("name a host of a receiver with --resolve, or let the resolver (/etc/resolv.conf) know public names")
	}
	return Failure(DNS, "%s cannot be resolved: %s", name, err).
		Change("correct the name servers of this machine (/etc/resolv.conf): no receiver with a name can be reached")
}
