package egress_test

import (
	"context"
	"encoding/csv"
	"net/netip"
	"os"
	"testing"

	"code.dny.dev/ssrf"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

// registry returns the blocks of IANA's registries of special purposes.
func registry(tb testing.TB) (blocks []netip.Prefix) {
	tb.Helper()
	file, err := os.Open("testdata/iana-special.csv")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 50 {
		tb.Fatalf("read registries: %d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		if row[1] != "IPv4-mapped Address" { // an IPv4-mapped address is checked as its IPv4 address
			blocks = append(blocks, netip.MustParsePrefix(row[0]))
		}
	}
	return blocks
}

// special reports whether an address must be refused: it does not belong to the public Internet.
// That includes blocks that a registry calls reachable, because no customer's receiver is at an
// anycast relay, a translator or the sink of AS112.
func special(blocks []netip.Prefix, ip netip.Addr) bool {
	ip = ip.Unmap()
	for _, b := range blocks {
		if b.Contains(ip) {
			return true
		}
	}
	global := netip.MustParsePrefix("2000::/3") // the only block that IANA has assigned from so far
	return ip.IsMulticast() || ip.Is6() && !global.Contains(ip) || ip == netip.MustParseAddr("168.63.129.16")
}

// last returns the last address of a block.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}

// tester is a testing.TB or a rapid.T.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
}

// agree checks that all decisions of the guard on an address agree with each other and with the
// registries.
func agree(t tester, e *egress.Egress, blocks []netip.Prefix, ip netip.Addr) {
	t.Helper()
	want := !special(blocks, ip)
	if got := e.Allows(ip); got != want {
		t.Errorf("%v: allowed = %t, want %t", ip, got, want)
	}
	network, address := "tcp6", netip.AddrPortFrom(ip.Unmap(), 443).String()
	if ip.Unmap().Is4() {
		network = "tcp4"
	}
	if err := e.Control(t.Context(), network, address); (err == nil) != want {
		t.Errorf("%v: Control = %v, want allowed = %t", ip, err, want)
	}
	if err := e.Check(address); (err == nil) != want {
		t.Errorf("%v: Check = %v, want allowed = %t", ip, err, want)
	}
}

func TestRegistriesOfSpecialPurposesAreRefused(t *testing.T) {
	t.Parallel()
	e, blocks := open(t, egress.Options{}), registry(t)
	for _, b := range blocks {
		first, end := b.Masked().Addr(), last(b)
		for _, ip := range []netip.Addr{first, first.Next(), end.Prev(), end} {
			if b.Contains(ip) && e.Allows(ip) {
				t.Errorf("%v of %v is allowed", ip, b)
			}
		}
		// An address beside a block is refused only if another block has it.
		for _, ip := range []netip.Addr{first.Prev(), end.Next()} {
			if ip.IsValid() {
				agree(t, e, blocks, ip)
			}
		}
	}
}

// addresses generates addresses of any kind. Many of them are near the limits of blocks.
var addresses = rapid.Custom(func(t *rapid.T) netip.Addr {
	if rapid.Bool().Draw(t, "v4") {
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")))
	}
	bytes := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
	if rapid.Bool().Draw(t, "global") {
		bytes[0] = bytes[0]&0x1f | 0x20
	}
	return netip.AddrFrom16([16]byte(bytes))
})

func TestGuardAgreesWithTheRegistries(t *testing.T) {
	t.Parallel()
	e, blocks := open(t, egress.Options{}), registry(t)
	rapid.Check(t, func(t *rapid.T) {
		agree(t, e, blocks, addresses.Draw(t, "ip"))
	})
}

// TestEmbeddedAddressesAreRefused puts every forbidden IPv4 address into every kind of IPv6 address
// that can contain one. Public IPv4 addresses are refused too, except in mapped addresses, which
// are the IPv4 address itself. A receiver behind a translator has a name.
func TestEmbeddedAddressesAreRefused(t *testing.T) {
	t.Parallel()
	e, blocks := open(t, egress.Options{Reach: egress.Reach{AllowHTTP: true}}), registry(t)
	check := func(t tester, ip netip.Addr) {
		t.Helper()
		for how, carrier := range testkit.Embeddings(ip) {
			want := how == "mapped" && !special(blocks, ip)
			if got := e.Allows(carrier); got != want {
				t.Errorf("%v in %v (%s): allowed = %t, want %t", ip, carrier, how, got, want)
			}
			if url, err := e.CheckURL("http://[" + carrier.String() + "]/"); (err == nil) != want {
				t.Errorf("%v in %v (%s): CheckURL = %q, %v, want allowed = %t", ip, carrier, how, url, err, want)
			}
		}
	}
	for _, b := range append(registry(t), ssrf.IPv4DeniedPrefixes...) {
		if b.Addr().Is4() {
			check(t, b.Masked().Addr())
			check(t, last(b))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes"))))
	})
}

// TestDenyAndAllowTakeMappedPrefixes checks both ways in which an operator may write an IPv4
// network.
func TestDenyAndAllowTakeMappedPrefixes(t *testing.T) {
	t.Parallel()
	e := open(t, egress.Options{Reach: egress.Reach{
		Allow: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("::ffff:93.184.216.0/120"), netip.MustParsePrefix("2606:4700::/32")},
	}})
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "11.1.2.3": true, "192.168.0.1": false,
		"93.184.216.34": false, "::ffff:93.184.216.34": false, "93.184.217.34": true, "2606:4700::1111": false,
	} {
		if got := e.Allows(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: allowed = %t, want %t", text, got, want)
		}
	}
}
