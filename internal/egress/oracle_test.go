package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/idna"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// FuzzCheckURL compares how other readers read every URL that passes: CheckURL itself, a second
// time; net/url; a browser; inet_aton(3), which the resolver of the C library calls; and Go's
// dialer.
func FuzzCheckURL(f *testing.F) {
	for _, url := range vectors(f) {
		f.Add(url)
	}
	for _, url := range []string{
		"https://example.com:8443/hooks?a=b", "HTTPS://Bücher.example.:443", "http://93.184.216.34", "http://[2606:4700::1111]:8080/?",
		"http://[::ffff:93.184.216.34]/", "https://my_hooks.xn--bcher-kva.example/%2e%2e//", "http://1.2.3.example/", "https://ｅxample。com:/",
		"http://example.com..", "http://example。.",
	} {
		f.Add(url)
	}
	e, blocks := open(f, egress.Options{Reach: egress.Reach{AllowHTTP: true}}), registry(f)
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := e.CheckURL(raw)
		if err != nil {
			if !errors.Is(err, postrider.ErrInvalid) || got != "" {
				t.Errorf("CheckURL(%q) = %q, %v", raw, got, err)
			}
			return
		}
		address, err := e.Address(raw)
		if again, err2 := e.Address(got); err != nil || err2 != nil || again != address {
			t.Fatalf("%q is dialled as %q, %v, and %q as %q, %v", raw, address, err, got, again, err2)
		}
		if again, err := e.CheckURL(got); err != nil || again != got {
			t.Errorf("CheckURL(%q) = %q, and of that %q, %v", raw, got, again, err)
		}
		for name, read := range map[string]func(string) (string, bool){"net/url": library, "a browser": browser} {
			for _, text := range []string{raw, got} {
				if theirs, ok := read(text); !ok || theirs != address {
					t.Errorf("%q is dialled as %q; %s reads %q as %q, %t", raw, address, name, text, theirs, ok)
				}
			}
		}
		host, _, _ := net.SplitHostPort(address)
		if ip, ok := lenient(host); ok && special(blocks, ip) {
			t.Errorf("%q is dialled as %q, which some read as %v", raw, address, ip)
		}
		for _, to := range dialled(t.Context(), address) {
			if ip := to.Addr(); special(blocks, ip) || ip.String() != host {
				t.Errorf("%q is dialled as %q, which connects to %v", raw, address, to)
			}
		}
	})
}

// dialled returns the addresses that Go's dialer would connect to without asking the DNS.
func dialled(ctx context.Context, address string) (to []netip.AddrPort) {
	stop := errors.New("far enough")
	d := net.Dialer{
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, stop }},
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to = append(to, netip.MustParseAddrPort(address))
			return stop
		},
	}
	if conn, err := d.DialContext(ctx, "tcp", address); err == nil {
		conn.Close()
	}
	return to
}

// library reads a URL only with net/url.
func library(raw string) (address string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", false
	}
	return meant(u.Scheme, u.Hostname(), u.Port())
}

// browser reads a URL by the WHATWG URL standard, which accepts texts that RFC 3986 does not.
func browser(raw string) (address string, ok bool) {
	raw = strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	raw = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(raw)
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return "", false
	}
	rest = strings.TrimLeft(rest, `/\`)
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	host, port := rest, ""
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, ']') {
		host, port = rest[:colon], rest[colon+1:]
	}
	if bare, bracketed := strings.CutPrefix(host, "["); bracketed {
		return meant(strings.ToLower(scheme), strings.TrimSuffix(bare, "]"), port)
	}
	host, err := url.PathUnescape(host)
	if err != nil {
		return "", false
	}
	return meant(strings.ToLower(scheme), host, port)
}

// forgiving maps names as browsers do.
var forgiving = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.VerifyDNSLength(false),
)

// meant returns the address for the parts of a URL.
func meant(scheme, host, port string) (address string, ok bool) {
	own, known := map[string]string{"http": "80", "https": "443"}[scheme]
	if port == "" {
		port = own
	}
	host, err := forgiving.ToASCII(host)
	if !known || err != nil {
		return "", false
	}
	if ip, ok := lenient(host); ok {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(strings.TrimSuffix(host, "."), port), true
}
