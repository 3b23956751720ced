package testkit_test

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

func TestInternet(t *testing.T) {
	t.Parallel()
	if report, outside := testkit.Alone(t); outside {
		if string(report) != "done" {
			t.Errorf("report = %q", report)
		}
		return
	}
	_, zone := testkit.NameVectors(t)
	hello := func(c net.Conn) { io.WriteString(c, c.LocalAddr().String()) }
	n := testkit.NewInternet(t, zone, []int{80}, hello)
	for _, text := range []string{
		"127.0.0.1:80", "10.0.0.1:80", "169.254.169.254:80", "240.0.0.1:80", "93.184.216.34:80", "[::1]:80",
		"[fd00:ec2::254]:80", "[2606:4700::1111]:80", "[64:ff9b::7f00:1]:80", "10.0.0.1:6379",
	} {
		to := netip.MustParseAddrPort(text)
		if got, want := n.Reaches(t.Context(), to), to.Port() == 80; got != want {
			t.Errorf("Reaches(%v) = %t, want %t", to, got, want)
		}
		if got := n.Connections(t); !slices.Equal(got, []netip.AddrPort{to}) {
			t.Errorf("after a connection to %v the tap saw %v", to, got)
		}
	}
	conn, err := n.Dialer().DialContext(t.Context(), "tcp", "169.254.169.254:80")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	conn.Close()
	if err != nil || !strings.Contains(string(text), "169.254.169.254:80") {
		t.Errorf("said %q, %v", text, err)
	}
	if got := n.Connections(t); len(got) != 0 {
		t.Errorf("the tap counted the test's own connection: %v", got)
	}
	for _, want := range []string{"93.184.216.34", "127.0.0.1", "93.184.216.34"} {
		got, err := net.DefaultResolver.LookupHost(t.Context(), "flip.rig.example")
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("flip.rig.example = %v, %v; want %s", got, err, want)
		}
	}
	got, err := net.DefaultResolver.LookupHost(t.Context(), "cnamecname.rig.example")
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"127.0.0.1", "::1"}) {
		t.Errorf("cnamecname.rig.example = %v, %v", got, err)
	}
	testkit.Report(t, []byte("done"))
}
