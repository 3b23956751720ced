package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/testkit"
)

var update = flag.Bool("update", false, "write bench/SSRF.md anew")

// The ways in which the process of the server differs. The C library's resolver
// reads spellings of addresses that Go's does not, and the environment may name
// proxies.
var surroundings = []struct{ resolver, proxy string }{{"go", ""}, {"go", proxyURL}, {"cgo", ""}, {"cgo", proxyURL}}

const proxyURL = "http://10.200.0.1:3128"

// dirEnv names the folder of the servers' store, which one leaves to the next.
const dirEnv = "POSTRIDER_TEST_SIEGE"

// TestPromise10NothingForbiddenIsReached tries forbidden URLs, DNS answers and redirects at every
// place where a URL enters the server. The server has the operator's defaults, except that it
// allows http. It runs in a network in which every address responds.
func TestPromise10NothingForbiddenIsReached(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString(tableHead)
	dir := t.TempDir()
	for _, s := range surroundings {
		env := []string{"GODEBUG=netdns=" + s.resolver, "NO_PROXY=", dirEnv + "=" + dir}
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
			env = append(env, name+"="+s.proxy)
		}
		report, outside := testkit.Alone(t, env...)
		if !outside {
			attackFromInside(t)
			return
		}
		var cells []cell
		if err := json.Unmarshal(report, &cells); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&table, "\n## Resolver %s, proxy of the environment %s\n\n", s.resolver, orUnset(s.proxy))
		writeTable(&table, cells)
	}
	const file = "../../bench/SSRF.md"
	if *update {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(file)
	if diff := cmp.Diff(table.String(), string(old)); err != nil || diff != "" {
		t.Errorf("%s is not as tested; run go test ./internal/app -run Promise10 -update (-want +got), %v:\n%s", file, err, diff)
	}
}

func orUnset(text string) string {
	if text == "" {
		return "unset"
	}
	return text
}

const tableHead = `# Server-side request forgery: what was tried, and what was reached

` + "`go test ./internal/app -run Promise10 -update`" + ` writes this page; every run of the tests compares with it. The server
runs with the operator's defaults but for --egress-http, in a network of its own in which every IPv4 and IPv6 address is
this machine and answers. A tap on the wire counts the packets that open a connection, whatever the port, and datagrams.

A cell is URLs tried / connections to anything but a public address on an allowed port. The rows are those of the threat
model. The doors: an endpoint is made with the URL, or changed to it; or the URL stands in the store as if no check had
been there, and the endpoint is sent a test event, an event, a challenge, a CloudEvents handshake, or its token is fetched
there; or a public receiver redirects there, with three redirects allowed; or a name has a public address when it is asked
for first and the URL's when asked again (rebind).
`

// cell is what came of one row at one door.
type cell struct {
	Row, Door string
	Tried     int
	Reached   []netip.AddrPort // that must not be
}

// writeTable writes rows by doors.
func writeTable(w *strings.Builder, cells []cell) {
	var rows, columns []string
	text := map[[2]string]string{}
	for _, c := range cells {
		rows, columns = append(rows, c.Row), append(columns, c.Door)
		text[[2]string{c.Row, c.Door}] = fmt.Sprintf("%d / %d", c.Tried, len(c.Reached))
	}
	slices.Sort(rows)
	columns = uniq(columns)
	w.WriteString("| row | " + strings.Join(columns, " | ") + " |\n|---" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, row := range slices.Compact(rows) {
		w.WriteString("| " + row)
		for _, door := range columns {
			w.WriteString(" | " + text[[2]string{row, door}])
		}
		w.WriteString(" |\n")
	}
}

// uniq keeps the first of each, in order.
func uniq(list []string) []string {
	var kept []string
	for _, text := range list {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// siege is a server in a network that is all traps.
type siege struct {
	net     *testkit.Internet
	vectors []testkit.Vector
	server  *besieged
	cells   []cell
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	names, zone := testkit.NameVectors(t)
	s := &siege{vectors: alternating(testkit.Vectors(t))}
	own := testkit.Own.String()
	s.vectors = append(s.vectors, testkit.Vector{Row: "S-18", URL: "http://" + own + "/"},
		testkit.Vector{Row: "S-18", URL: "https://" + own + ":8443/v1"},
		testkit.Vector{Row: "S-18", URL: "http://[::ffff:" + own + "]/"})
	names = append(names, testkit.Vector{Row: "S-18", URL: "https://own.rig.example/", Name: true})
	zone["own.rig.example."] = [][]string{{own}}
	s.vectors = append(s.vectors, alternating(names)...)
	for i, ip := range s.addresses() {
		zone[rebound(i)+"."] = [][]string{{testkit.Public.String()}, {ip.String()}}
	}
	zone["receiver.example."] = [][]string{{testkit.Public.String()}}
	zone["receiver6.example."] = [][]string{{testkit.Public6.String()}}
	zone["."] = [][]string{{"127.0.0.1", "::1"}} // whatever gets past the checks as a name
	ports := []int{22, 25, 80, 443, 3128, 5432, 6379, 8080, 8443}
	s.net = testkit.NewInternet(t, zone, ports, s.receive)
	return s
}

// alternating leaves out every second of the vectors that differ only in scheme
// and port from their neighbour.
func alternating(list []testkit.Vector) (kept []testkit.Vector) {
	bare := func(url string) string {
		return strings.NewReplacer("https://", "", "http://", "", ":8443/", "/").Replace(url)
	}
	for i := 0; i < len(list); i++ {
		one := list[i]
		if i+1 < len(list) && bare(list[i+1].URL) == bare(one.URL) {
			i++
			if len(kept)%2 == 1 {
				one = list[i]
			}
		}
		kept = append(kept, one)
	}
	return kept
}

// rebound is a name that changes to the address of that number.
func rebound(i int) string { return fmt.Sprintf("r%d.rebind.example", i) }

// addresses returns the forbidden addresses that the vectors spell out.
func (s *siege) addresses() []netip.Addr {
	var list []netip.Addr
	for _, v := range s.vectors {
		u, err := url.Parse(v.URL)
		if err != nil {
			continue
		}
		ip, err := netip.ParseAddr(u.Hostname())
		if err == nil && ip.Zone() == "" && ip != testkit.Public && ip != testkit.Public6 && !slices.Contains(list, ip) {
			list = append(list, ip)
		}
	}
	return list
}

// receive answers one request: /to/N is redirected to the vector of that number,
// /onward to where it may go.
func (s *siege) receive(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if req.URL.Path == "/onward" {
		fmt.Fprint(conn, "HTTP/1.1 307 X\r\nLocation: http://receiver6.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	number, redirects := strings.CutPrefix(req.URL.Path, "/to/")
	n, err := strconv.Atoi(number)
	if !redirects || err != nil || n >= len(s.vectors) {
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	code := []int{307, 308, 301, 302, 303}[n%5]
	fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nLocation: %s\r\nRefresh: 0; url=%[2]s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", code,
		s.vectors[n].URL)
}

// allowed reports whether a connection there is what was meant.
func allowed(to netip.AddrPort) bool {
	return (to.Addr() == testkit.Public || to.Addr() == testkit.Public6) && slices.Contains([]uint16{80, 443, 8080, 8443}, to.Port())
}

// attackFromInside is the test in its network.
func attackFromInside(t *testing.T) {
	s := newSiege(t)
	s.checkTraps(t)
	s.checkSurroundings(t)
	dir := os.Getenv(dirEnv)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.server = besiege(t, s.net, dir)
	s.atTheAPI(t)
	if len(entries) == 0 { // the first one makes the endpoints for all
		s.prepare(t)
		s.server.stop()
		s.bend(t, dir)
		s.server = besiege(t, s.net, dir)
	}
	s.atTheDialler(t)
	s.server.stop()
	for _, name := range s.net.DNS.Asked() {
		if strings.HasSuffix(name, testkit.SearchDomain) {
			t.Errorf("the search domain was asked for %s", name)
		}
	}
	for _, c := range s.cells {
		if len(c.Reached) > 0 {
			t.Errorf("%s, %s: reached %v", c.Row, c.Door, c.Reached)
		}
	}
	report, err := json.Marshal(s.cells)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Report(t, report)
}

// checkTraps connects to every forbidden address itself: where that is not
// seen, nothing that is not seen means anything.
func (s *siege) checkTraps(t *testing.T) {
	t.Helper()
	reached := 0
	for _, ip := range s.addresses() {
		to := netip.AddrPortFrom(ip, 443)
		if !s.net.Reaches(t.Context(), to) {
			continue // multicast, for instance, has no connections
		}
		reached++
		if seen := s.net.Connections(t); len(seen) != 1 {
			t.Fatalf("a connection to %v was seen as %v", to, seen)
		}
	}
	if reached < 150 {
		t.Fatalf("%d of %d forbidden addresses can be reached", reached, len(s.addresses()))
	}
	s.net.Connections(t)
}

// checkSurroundings makes sure that the resolver and the proxy are those that
// the test is about, as far as other code of this process goes.
func (s *siege) checkSurroundings(t *testing.T) {
	t.Helper()
	ips, err := net.DefaultResolver.LookupHost(t.Context(), "0x7f.1")
	asked := slices.Contains(s.net.DNS.Asked(), "0x7f.1.")
	if wantC := os.Getenv("GODEBUG") == "netdns=cgo"; err != nil || asked == wantC {
		t.Fatalf("0x7f.1 = %v, %v, the DNS was asked: %t; with %s", ips, err, asked, os.Getenv("GODEBUG"))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://receiver.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if answer, err := transport.RoundTrip(req); err != nil || answer.Body.Close() != nil {
		t.Fatal(err)
	}
	want := netip.AddrPortFrom(testkit.Public, 80)
	if os.Getenv("HTTP_PROXY") != "" {
		want = netip.MustParseAddrPort(strings.TrimPrefix(proxyURL, "http://"))
	}
	if seen := s.net.Connections(t); !slices.Equal(seen, []netip.AddrPort{want}) {
		t.Fatalf("other code of this process connects to %v, want %v", seen, want)
	}
}

// door tries the vectors of that number and returns how many requests to
// public addresses that must have made, at least.
type door struct {
	name string
	try  func(ctx context.Context, t *testing.T, numbers []int) int
}

// through tries every row at the door.
func (s *siege) through(t *testing.T, d door) {
	t.Helper()
	for row, numbers := range s.rows() {
		s.tryRow(t, d, row, numbers)
	}
}

// rows returns the numbers of the vectors by their row.
func (s *siege) rows() map[string][]int {
	rows := map[string][]int{}
	for i, v := range s.vectors {
		rows[v.Row] = append(rows[v.Row], i)
	}
	return rows
}

func (s *siege) tryRow(t *testing.T, d door, row string, numbers []int) {
	t.Helper()
	public := d.try(t.Context(), t, numbers)
	seen := s.net.Connections(t)
	c := cell{Row: row, Door: d.name, Tried: len(numbers), Reached: slices.DeleteFunc(slices.Clone(seen), allowed)}
	if n := len(seen) - len(c.Reached); n < public {
		t.Errorf("%s, %s: %d connections to public addresses, want at least %d", row, d.name, n, public)
	}
	s.cells = append(s.cells, c)
}
