package testkit

import (
	_ "embed"
	"net/netip"
	"strings"
	"testing"
)

// Vector is a URL that must not be reached.
type Vector struct {
	Row  string // row of the threat model, like S-07
	URL  string
	Name bool // the URL itself is valid; the DNS gives a forbidden address for its name
}

//go:embed testdata/ssrf.txt
var ssrfURLs string

//go:embed testdata/ssrf_names.txt
var ssrfNames string

// Vectors returns URLs that must be refused before any network request. They assume that http is
// allowed and all other settings are the defaults. Some are not URLs at all.
func Vectors(tb testing.TB) []Vector {
	tb.Helper()
	var list []Vector
	unescape := strings.NewReplacer(`\t`, "\t", `\n`, "\n", `\r`, "\r", `\x01`, "\x01", `\x7f`, "\x7f")
	for row, line := range rowed(ssrfURLs) {
		line = unescape.Replace(line)
		whole := strings.ContainsAny(line, ":/") && !strings.HasPrefix(line, "[") && !strings.HasSuffix(line, "::1")
		if whole {
			list = append(list, Vector{Row: row, URL: line})
		} else {
			list = append(list, Vector{Row: row, URL: "http://" + line + "/"}, Vector{Row: row, URL: "https://" + line + ":8443/"})
		}
	}
	if len(list) < 900 {
		tb.Fatalf("testdata/ssrf.txt has %d URLs", len(list))
	}
	return list
}

// NameVectors returns URLs with harmless names, and the zone in which these names have forbidden
// addresses.
func NameVectors(tb testing.TB) ([]Vector, Zone) {
	tb.Helper()
	var list []Vector
	zone := Zone{}
	for _, line := range rowed(ssrfNames) {
		row, rest, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(rest, " ")
		for turn := range strings.SplitSeq(rest, "|") {
			zone[name+"."] = append(zone[name+"."], strings.Fields(turn))
		}
		list = append(list, Vector{row, "http://" + name + "/", true}, Vector{row, "https://" + name + ":8443/", true})
	}
	zone["localhost."] = [][]string{{"127.0.0.1", "::1"}}
	if len(list) < 100 {
		tb.Fatalf("testdata/ssrf_names.txt has %d names", len(zone))
	}
	return list, zone
}

// rowed yields the lines of a text that are neither empty nor comments. Each comes with the row,
// which is the start of the last comment.
func rowed(text string) func(yield func(row, line string) bool) {
	return func(yield func(row, line string) bool) {
		row := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			title, comment := strings.CutPrefix(line, "# ")
			switch {
			case comment:
				row, _, _ = strings.Cut(title, ":")
			case line == "":
			case !yield(row, line):
				return
			}
		}
	}
}

// Embeddings returns the IPv6 addresses that contain the IPv4 address, by the names of the formats.
func Embeddings(ip netip.Addr) map[string]netip.Addr {
	v4 := ip.As4()
	at := func(prefix string, place int) netip.Addr {
		bytes := netip.MustParseAddr(prefix).As16()
		copy(bytes[place:], v4[:])
		return netip.AddrFrom16(bytes)
	}
	turned := v4
	for i := range turned {
		turned[i] ^= 0xff
	}
	teredo := netip.MustParseAddr("2001:0:4136:e378:8000:63bf::").As16()
	copy(teredo[12:], turned[:])
	local := netip.MustParseAddr("64:ff9b:1::").As16() // RFC 6052, 2.2: bits 64 to 71 are zero
	copy(local[6:], v4[:2])
	copy(local[9:], v4[2:])
	return map[string]netip.Addr{
		"mapped":         at("::ffff:0:0", 12),
		"compatible":     at("::", 12),
		"translated":     at("::ffff:0:0:0", 12),
		"NAT64":          at("64:ff9b::", 12),
		"local NAT64":    netip.AddrFrom16(local),
		"local NAT64/96": at("64:ff9b:1::", 12),
		"6to4":           at("2002::", 2),
		"Teredo server":  at("2001::", 4),
		"Teredo client":  netip.AddrFrom16(teredo),
		"ISATAP":         at("fe80::5efe:0:0", 12),
		"ISATAP, unique": at("fe80::200:5efe:0:0", 12),
		"site-local":     at("fec0::", 12),
		"unique local":   at("fd00::", 12),
	}
}
