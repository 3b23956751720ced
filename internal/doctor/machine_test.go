package doctor_test

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"testing"
	"testing/fstest"

	"github.com/postrider/postrider/internal/doctor"
)

func TestDisks(t *testing.T) {
	t.Parallel()
	const gb = 1 << 30
	for name, tt := range map[string]struct {
		disk doctor.Space
		want judged
	}{
		"80 percent":      {doctor.Space{Used: 80 * gb, Free: 20 * gb}, judged{doctor.OK, "80 %", ""}},
		"more":            {doctor.Space{Used: 81 * gb, Free: 20 * gb}, judged{doctor.Warn, "81 %", "plan"}},
		"90 percent":      {doctor.Space{Used: 90 * gb, Free: 10 * gb}, judged{doctor.Warn, "90 %", "plan"}},
		"more than that":  {doctor.Space{Used: 91 * gb, Free: 10 * gb}, judged{doctor.Fail, "10 GB are free", "now"}},
		"nothing is left": {doctor.Space{Used: gb}, judged{doctor.Fail, "100 %", "now"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.disk.Check(doctor.SQLiteDisk, "/data"), tt.want)
		})
	}
}

func TestOpenFiles(t *testing.T) {
	t.Parallel()
	for limit, want := range map[uint64]judged{
		1024:  {doctor.Fail, "up to 6656", "LimitNOFILE=13312"},
		2000:  {doctor.Warn, "2000", "ulimit -n 13312"},
		6656:  {doctor.OK, "6656", ""},
		65536: {doctor.OK, "65536", ""},
	} {
		expect(t, doctor.CheckOpenFiles(limit, 1024), want)
	}
}

func TestTheMemoryLimitIsTheLeastOfTheControlGroups(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, tt := range map[string]struct {
		files fstest.MapFS
		limit int64
		of    string
	}{
		"version 2, its own": {fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000\n"), "sys/fs/cgroup/a/memory.max": file("max\n"),
		}, 1000, "this control group (container)"},
		"version 2, one above": {fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000\n"), "sys/fs/cgroup/a/memory.max": file("900\n"),
		}, 900, "this control group (container)"},
		"version 2 in a container": {
			fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("800\n")},
			800,
			"this control group (container)",
		},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup": file("5:cpu,cpuacct:/a\n4:memory:/a\n0::/other\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("700\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   file("9223372036854771712\n"),
		}, 700, "this control group (container)"},
		"no limit": {fstest.MapFS{
			"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n"),
			"proc/meminfo": file("Swap: 1\nMemTotal:     4 kB\n"),
		}, 4096, "this machine"},
		"not Linux": {fstest.MapFS{}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if limit, of := doctor.MemoryLimit(tt.files); limit != tt.limit || of != tt.of {
				t.Errorf("MemoryLimit = %d of %q, want %d of %q", limit, of, tt.limit, tt.of)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	few := doctor.MemoryUse{Bodies: 48 << 20, Endpoints: 10, GoLimit: math.MaxInt64}
	many := doctor.MemoryUse{Bodies: 48 << 20, Endpoints: 1_000_000, GoLimit: math.MaxInt64}
	limited := doctor.MemoryUse{Bodies: 48 << 20, Endpoints: -1, GoLimit: 1 << 30}
	for name, tt := range map[string]struct {
		limit int64
		use   doctor.MemoryUse
		want  judged
	}{
		"enough":            {256 << 20, few, judged{doctor.OK, "10 endpoints needs up to 184 MB", ""}},
		"too little":        {128 << 20, few, judged{doctor.Warn, "128 MB", "allow 184 MB"}},
		"many endpoints":    {1 << 30, many, judged{doctor.Warn, "needs up to 2159 MB", "--body-budget"}},
		"unknown endpoints": {2 << 30, limited, judged{doctor.OK, "unknown number", ""}},
		"a limit of Go":     {512 << 20, limited, judged{doctor.Warn, "GOMEMLIMIT is 1 GB", "90 %"}},
		"no limit":          {0, few, judged{doctor.OK, "cannot be read", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, doctor.CheckMemory(tt.limit, "this", tt.use), tt.want)
		})
	}
}

func TestListeners(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		listener doctor.Listener
		want     judged
	}{
		"free":      {doctor.Listener{Address: "127.0.0.1:8080"}, judged{doctor.OK, "free", ""}},
		"ours":      {doctor.Listener{Busy: true, Ours: true}, judged{doctor.OK, "by a Postrider server", ""}},
		"another's": {doctor.Listener{Busy: true, Setting: "listen"}, judged{doctor.Fail, "another program", "--listen"}},
		"not ours to use": {
			doctor.Listener{Err: errors.New("denied"), Setting: "listen"},
			judged{doctor.Fail, "denied", "CAP_NET_BIND_SERVICE"},
		},
		"open to operators": {doctor.Listener{Name: doctor.ListenOps, Address: ":9090"}, judged{doctor.OK, "no login", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.listener.Check(), tt.want)
		})
	}
}

func TestWhichAddressesOtherMachinesReach(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:1": false, "127.9.9.9:1": false, "[::1]:1": false, "localhost:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, "hooks.example.com:1": true,
	} {
		if got := doctor.Exposed(address); got != want {
			t.Errorf("Exposed(%q) = %t", address, got)
		}
	}
}

func TestEgressRules(t *testing.T) {
	t.Parallel()
	prefixes := func(texts ...string) (list []netip.Prefix) {
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	for name, tt := range map[string]struct {
		rules doctor.Egress
		want  judged
	}{
		"the default": {
			doctor.Egress{Ports: []uint16{80, 443}, Exposed: true},
			judged{doctor.OK, "requests go to https URLs at public addresses, on the ports 80, 443", ""},
		},
		"more": {
			doctor.Egress{HTTP: true, Allow: prefixes("10.0.0.0/8", "fd00::/8"), Exposed: true, Proxy: "http://p:xxxxx@proxy:1"},
			judged{
				doctor.OK,
				"http and https URLs at public addresses and 10.0.0.0/8, fd00::/8, on every port, through the proxy http://p:xxxxx@proxy:1", "",
			},
		},
		"a laptop":     {doctor.Egress{Dev: true, Allow: prefixes("127.0.0.0/8")}, judged{doctor.OK, "because of --dev", ""}},
		"--dev":        {doctor.Egress{Dev: true, Exposed: true}, judged{doctor.Warn, "with --dev", "remove --dev"}},
		"loopback":     {doctor.Egress{Allow: prefixes("127.0.0.0/8"), Exposed: true}, judged{doctor.Warn, "this machine", "single"}},
		"all of IPv4":  {doctor.Egress{Allow: prefixes("0.0.0.0/0"), Exposed: true}, judged{doctor.Warn, "0.0.0.0/0", "/8"}},
		"half of IPv6": {doctor.Egress{Allow: prefixes("8000::/1"), Exposed: true}, judged{doctor.Warn, "8000::/1", "/8"}},
		"metadata":     {doctor.Egress{Allow: prefixes("169.254.0.0/16"), Exposed: true}, judged{doctor.Warn, "169.254.0.0/16", "/8"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.rules.Check(), tt.want)
		})
	}
}

func TestPublicURLs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		url          string
		dev, exposed bool
		want         judged
	}{
		"https":            {"https://hooks.example.com", false, true, judged{doctor.OK, "https://hooks.example.com", ""}},
		"http":             {"http://hooks.example.com", false, true, judged{doctor.Warn, "in the clear", "TLS"}},
		"http, this one":   {"http://localhost:8080", false, false, judged{doctor.OK, "", ""}},
		"none, exposed":    {"", false, true, judged{doctor.Warn, "no links", "--public-url"}},
		"none, alone":      {"", false, false, judged{doctor.OK, "this machine alone", ""}},
		"none, with --dev": {"", true, true, judged{doctor.OK, "--dev", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, doctor.CheckPublicURL(tt.url, tt.dev, tt.exposed), tt.want)
		})
	}
}

func TestResolvers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want judged
	}{
		"it answers": {nil, judged{doctor.OK, "example.com has 2 addresses", ""}},
		"an unknown": {
			&net.DNSError{Err: "no such host", Name: "example.com", IsNotFound: true},
			judged{doctor.Warn, "does not know example.com", "--resolve"},
		},
		"no answer": {
			&net.DNSError{Err: "i/o timeout", Name: "example.com", IsTimeout: true},
			judged{doctor.Fail, "i/o timeout", "/etc/resolv.conf"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, doctor.CheckDNS("example.com", 2, tt.err), tt.want)
		})
	}
}
