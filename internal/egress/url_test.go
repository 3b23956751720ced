package egress_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/egress"
)

func TestCheckURLCanonicalises(t *testing.T) {
	t.Parallel()
	e := open(t, egress.Options{Reach: egress.Reach{AllowHTTP: true}})
	for _, tt := range []struct{ name, raw, want string }{
		{"as it is", "https://example.com/hooks?a=b&a=%20c", "https://example.com/hooks?a=b&a=%20c"},
		{"no path", "https://example.com", "https://example.com"},
		{"upper case", "HTTPS://EXAMPLE.com/Hooks", "https://example.com/Hooks"},
		{"a dot at the end", "https://example.com./", "https://example.com/"},
		{"the scheme's own port", "https://example.com:443/", "https://example.com/"},
		{"no port after the colon", "https://example.com:/", "https://example.com/"},
		{"the other scheme's port", "https://example.com:80/", "https://example.com:80/"},
		{"http", "http://example.com:80/", "http://example.com/"},
		{"another port", "http://example.com:8080/", "http://example.com:8080/"},
		{"an international name", "https://Bücher.example/", "https://xn--bcher-kva.example/"},
		{"a name in ASCII already", "https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"},
		{"fullwidth letters", "https://ｅxample。com/", "https://example.com/"},
		{"an underscore", "https://my_hooks.example.com/", "https://my_hooks.example.com/"},
		{"a public address", "https://93.184.216.34/", "https://93.184.216.34/"},
		{"a public mapped address", "https://[::ffff:93.184.216.34]/", "https://93.184.216.34/"},
		{"a public IPv6 address", "https://[2606:4700:0:0::1111]:8443/", "https://[2606:4700::1111]:8443/"},
		{"an escaped path", "https://example.com/a%2Fb/%7e", "https://example.com/a%2Fb/%7e"},
		{"digits before the last label", "https://1.2.3.com/", "https://1.2.3.com/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := e.CheckURL(tt.raw); err != nil || got != tt.want {
				t.Errorf("CheckURL(%q) = %q, %v; want %q", tt.raw, got, err, tt.want)
			}
		})
	}
}

func TestCheckURLSaysWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, raw, want string
		opts            egress.Options
	}{
		{"http by default", "http://example.com/", "url must start with https:// (the operator may allow http: --egress-http)", egress.Options{}},
		{"another scheme", "ftp://example.com/", "url must start with https:// or http://", egress.Options{Reach: egress.Reach{AllowHTTP: true}}},
		{"a password", "https://u:canary@example.com/", "url must not have a user, a password or an escaped host", egress.Options{}},
		{"a fragment", "https://example.com/#canary", "url must not have a fragment", egress.Options{}},
		{"a port", "https://example.com:22/", "url must have a port that this deployment allows (--egress-ports)", egress.Options{}},
		{
			"an own list of ports", "https://example.com/", "url must have a port that this deployment allows (--egress-ports)",
			egress.Options{Reach: egress.Reach{Ports: []uint16{8443}}},
		},
		{"port 0", "https://example.com:0/", "url must have a port from 1 to 65535", egress.Options{Reach: egress.Reach{AnyPort: true}}},
		{"a private address", "https://10.0.0.1/", "url must have a public host (--egress-allow)", egress.Options{}},
		{"an address of credentials", "https://169.254.169.254/", "url must not have this address: it is always forbidden", egress.Options{}},
		{
			"an address of credentials that is allowed", "https://[::ffff:169.254.169.254]/",
			"url must not have this address: it is always forbidden",
			egress.Options{Reach: egress.Reach{Allow: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}},
		},
		{"no address at all", "https://0.0.0.0/", "url must not have this address: it is always forbidden", egress.Options{}},
		{
			"no address at all, allowed", "https://0.0.0.0/", "url must not have this address: it is always forbidden",
			egress.Options{Reach: egress.Reach{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}},
		},
		{
			"no address of version 6, allowed", "https://[::]/", "url must not have this address: it is always forbidden",
			egress.Options{Reach: egress.Reach{Allow: []netip.Prefix{netip.MustParsePrefix("::/0")}}},
		},
		{"no port at all", "https://example.com:65536/", "url must have a port from 1 to 65535", egress.Options{}},
		{
			"two dots at the end", "https://example.com../", "url must have a valid domain name or IP address as its host",
			egress.Options{},
		},
		{"a single label", "https://canary/", "url must have a public host (--egress-allow)", egress.Options{}},
		{"too long", "https://example.com/" + strings.Repeat("x", 2048), "url must have at most 2048 characters", egress.Options{}},
		{
			"a long label", "https://" + strings.Repeat("x", 64) + ".com/", "url must have a valid domain name or IP address as its host",
			egress.Options{},
		},
		{
			"a long host", "https://" + strings.Repeat("x.", 126) + "com/", "url must have a valid domain name or IP address as its host",
			egress.Options{},
		},
		{
			"an own address", "https://93.184.216.34/", "url must have a public host (--egress-allow)",
			egress.Options{Reach: egress.Reach{Deny: []netip.Prefix{netip.MustParsePrefix("93.184.216.34/32")}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := open(t, tt.opts).CheckURL(tt.raw)
			if err == nil || err.Error() != tt.want {
				t.Errorf("CheckURL(%q) = %q, %v; want %s", tt.raw, got, err, tt.want)
			}
		})
	}
}

func TestAllowWidens(t *testing.T) {
	t.Parallel()
	e := open(t,
		egress.Options{Reach: egress.Reach{
			AllowHTTP: true,
			Allow:     []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		}})
	for raw, allowed := range map[string]bool{
		"http://10.1.2.3/":         true,
		"http://[::ffff:10.1.2.3]": true,
		"http://[fd00::1]/":        true,
		"http://receiver/":         true, // decided when the name is resolved
		"http://127.0.0.1/":        false,
		"http://localhost/":        false,
		"http://a.localhost/":      false,
		"http://169.254.169.254/":  false,
		"http://[::1]/":            false,
		"http://10.1.2.3:22/":      false,
	} {
		if got, err := e.CheckURL(raw); (err == nil) != allowed {
			t.Errorf("CheckURL(%q) = %q, %v; want allowed = %t", raw, got, err, allowed)
		}
	}
}

func TestNoRangeAllowsCredentials(t *testing.T) {
	t.Parallel()
	e := open(t, egress.Options{Reach: egress.Reach{AllowHTTP: true, Allow: []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("fd00:ec2::254/128"),
	}}})
	for _, host := range []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "169.254.0.23",
		"169.254.42.42", "192.0.0.192", "[fd00:ec2::254]", "[fd00:ec2::23]", "[fd20:ce::254]", "[fd00:100::100:200]",
		"[fd00:42::42]", "[fd00:c1::a9fe:a9fe]", "[fd00:a9fe:a9fe::1]", "[fe80::a9fe:a9fe]", "[::ffff:169.254.169.254]",
	} {
		if got, err := e.CheckURL("http://" + host + "/"); err == nil {
			t.Errorf("%q is allowed", got)
		}
		if e.Check(host+":80") == nil || e.Control(t.Context(), "tcp", host+":80") == nil {
			t.Errorf("%s may be dialled", host)
		}
	}
	for _, host := range []string{"169.254.169.253", "[fd00:ec2::1]", "10.0.0.1"} {
		if _, err := e.CheckURL("http://" + host + "/"); err != nil {
			t.Errorf("%s is not allowed: %v", host, err)
		}
	}
}

func TestLocalPrefixes(t *testing.T) {
	t.Parallel()
	got, err := egress.LocalPrefixes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got {
		if !p.IsSingleIP() || p.Addr().Is4In6() {
			t.Errorf("LocalPrefixes has %v", p)
		}
	}
}

// lenient reads a host as inet_aton(3) does: one to four parts in decimal, octal or hexadecimal.
// The last part fills the remaining bytes.
func lenient(host string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ip.Unmap(), true
	}
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		base, digits := 10, part
		switch {
		case strings.HasPrefix(part, "0x"):
			base, digits = 16, part[2:]
		case len(part) > 1 && part[0] == '0':
			base, digits = 8, part[1:]
		}
		n, err := strconv.ParseUint("0"+digits, base, 33)
		if err != nil || part == "" {
			return netip.Addr{}, false
		}
		shift := 8 * (3 - i)
		if i == len(parts)-1 {
			shift = 0
		}
		sum += n << shift
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), sum < 1<<32
}
