package egress

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/postrider/postrider"
)

// MaxURL is the longest URL of an endpoint, in bytes.
const MaxURL = 2048

const maxHost = 253 // bytes of a name: RFC 1035

// The reasons why a URL is refused. All forbidden targets have the same reason, so that it does not
// show which of them exist.
const (
	reasonForm      = "must be an absolute URL like https://example.com/hooks"
	reasonLength    = "must have at most 2048 characters"
	reasonASCII     = "must be ASCII after the host, without spaces, control characters and backslashes"
	reasonUser      = "must not have a user, a password or an escaped host"
	reasonFragment  = "must not have a fragment"
	reasonScheme    = "must start with https:// (the operator may allow http: --egress-http)"
	reasonAnyScheme = "must start with https:// or http://"
	reasonHost      = "must have a valid domain name or IP address as its host"
	reasonPort      = "must have a port that this deployment allows (--egress-ports)"
	reasonNoPort    = "must have a port from 1 to 65535"
	reasonForbidden = "must have a public host (--egress-allow)"
	reasonNever     = "must not have this address: it is always forbidden"
)

// refuse returns the error for a URL. The error has the reason and no part of the URL, which may
// hold a credential.
func refuse(reason string) error {
	fault := &postrider.InvalidError{Field: "url", Reason: reason, Code: codes[reason]}
	if fault.Code == postrider.FaultTooLong {
		fault.Max = MaxURL
	}
	return fault
}

// codes has a code for each reason that is not about the form of the URL.
var codes = map[string]postrider.FaultCode{
	reasonLength:    postrider.FaultTooLong,
	reasonUser:      postrider.FaultHasCredentials,
	reasonScheme:    postrider.FaultNotHTTPS,
	reasonAnyScheme: postrider.FaultNotHTTP,
	reasonPort:      postrider.FaultNotPublic,
	reasonForbidden: postrider.FaultNotPublic,
	reasonNever:     postrider.FaultNotPublic,
}

// parse reads an endpoint's URL and checks everything that can be checked without
// the network. The result is canonical: parsing its text again gives the same.
func (g *guard) parse(raw string) (*url.URL, error) {
	if err := checkText(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return nil, refuse(reasonForm)
	}
	if !slices.Contains(g.schemes, u.Scheme) {
		if len(g.schemes) > 1 {
			return nil, refuse(reasonAnyScheme)
		}
		return nil, refuse(reasonScheme)
	}
	host, ok := canonicalHost(u.Host)
	if !ok {
		return nil, refuse(reasonHost)
	}
	port, err := g.canonicalPort(u)
	if err != nil {
		return nil, err
	}
	// An address in the URL is checked now. The addresses of a name are checked when it is dialed;
	// now only the form of the name is checked.
	ip, err := netip.ParseAddr(host)
	literal := err == nil
	if literal && isNever(ip) {
		return nil, refuse(reasonNever)
	}
	if literal && !g.allows(ip) || !literal && !g.allowsName(host) {
		return nil, refuse(reasonForbidden)
	}
	if literal && ip.Is6() {
		host = "[" + host + "]"
	}
	u.Host = host + port
	return u, nil
}

// checkText refuses texts that URL parsers read differently. If the parser that checks a URL
// disagrees with the parser that uses it, a request goes to a host that was not checked. For
// example, in https://good.example\@10.0.0.1/ some parsers find the host good.example, others find
// 10.0.0.1 with a user name before it. checkText refuses such a text before any parser sees it, and
// repairs nothing.
func checkText(raw string) error {
	if len(raw) > MaxURL {
		return refuse(reasonLength)
	}
	if !utf8.ValidString(raw) {
		return refuse(reasonForm)
	}
	_, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return refuse(reasonForm)
	}
	authority := rest
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		authority, rest = rest[:end], rest[end:]
	} else {
		rest = ""
	}
	switch {
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		return refuse(reasonASCII)
	case strings.ContainsFunc(rest, func(r rune) bool { return r > '~' }):
		return refuse(reasonASCII)
	case strings.ContainsAny(authority, "@%"):
		return refuse(reasonUser)
	case strings.Contains(raw, "#"):
		return refuse(reasonFragment)
	}
	return nil
}

// canonicalPort returns ":port", or "" for the standard port of the scheme.
func (g *guard) canonicalPort(u *url.URL) (string, error) {
	standard := "443"
	if u.Scheme == "http" {
		standard = "80"
	}
	text := cmp.Or(u.Port(), standard)
	port, err := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil || port == 0 || strconv.FormatUint(port, 10) != text:
		return "", refuse(reasonNoPort)
	case !g.allowsPort(uint16(port)):
		return "", refuse(reasonPort)
	case text == standard:
		return "", nil
	}
	return ":" + text, nil
}

// canonicalHost returns the host of a URL in canonical form. An IP address gets its shortest form,
// without brackets. A domain name becomes ASCII in lower case without a dot at its end. Each host
// has one form, so two spellings of a host share its connections and its limit of attempts:
//
//	[::ffff:192.0.2.1]  →  192.0.2.1
//	BÜCHER.example.     →  xn--bcher-kva.example
//	0x7f.1              →  refused: some resolvers read 127.0.0.1
func canonicalHost(hostport string) (string, bool) {
	if strings.HasPrefix(hostport, "[") {
		text, _, _ := strings.Cut(hostport[1:], "]")
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", false
		}
		return ip.Unmap().String(), true
	}
	name, _, _ := strings.Cut(hostport, ":")
	if !isPlain(name) {
		// Some mapped names change when they are mapped again. They are refused, so that the
		// canonical form is stable.
		mapped, err := lookupProfile.ToASCII(name)
		if again, err2 := lookupProfile.ToASCII(mapped); err != nil || err2 != nil || again != mapped {
			return "", false
		}
		name = mapped
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if !isName(name) {
		return "", false
	}
	if !endsInNumber(name) {
		return name, true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil { // 127.1, 0x7f.1 and 2130706433 are addresses for some resolvers
		return "", false
	}
	return ip.String(), true
}

// lookupProfile maps international names to the form that the DNS has, as browsers do (UTS 46, not
// transitional). It refuses a text that is not a valid domain name.
var lookupProfile = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.StrictDomainName(true), idna.VerifyDNSLength(true),
)

// isPlain reports whether the name is ASCII that IDNA does not change.
func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r > '~' }) &&
		!strings.Contains(strings.ToLower(name), "xn--")
}

// isName reports whether the name consists of labels of letters, digits, hyphens and underscores.
// The names of some receivers have underscores.
func isName(name string) bool {
	if len(name) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		invalid := strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		})
		if invalid || label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// endsInNumber implements the rule "ends in a number" of the WHATWG URL standard: the last label is
// decimal, or hexadecimal with 0x.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	digits, ok := strings.CutPrefix(last, "0x")
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}
