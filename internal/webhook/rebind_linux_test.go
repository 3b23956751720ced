package webhook_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

// TestTenThousandRebindings uses a real DNS server, whose answers are public first and private
// later. Both addresses can be reached in the network of the test.
func TestTenThousandRebindings(t *testing.T) {
	for _, resolver := range []string{"go", "cgo"} {
		report, outside := testkit.Alone(t, "GODEBUG=netdns="+resolver)
		if !outside {
			rebindFromInside(t)
			return
		}
		t.Logf("netdns=%s: %s", resolver, report)
	}
}

// rebindings is the number of attempts for each name.
const rebindings = 2500

func rebindFromInside(t *testing.T) {
	zone := testkit.Zone{}
	names := []string{"flip.example", "flop.example", "family.example", "mixed.example"}
	public := testkit.Public.String()
	zone["flip.example."] = [][]string{{public}, {"127.0.0.1"}}
	zone["flop.example."] = [][]string{{"169.254.169.254"}, {public}}
	zone["family.example."] = [][]string{{public}, {"::1"}}
	zone["mixed.example."] = [][]string{{public}, {public, "10.0.0.1"}}
	n := testkit.NewInternet(t, zone, []int{80}, answerOnce)
	e := open(t, egress.Options{Reach: egress.Reach{AllowHTTP: true}})
	blocked, reached := 0, 0
	for _, name := range names {
		for range rebindings {
			switch a := send(t, e, routed("http://"+name+"/"), testkit.Patience); a.Outcome {
			case postrider.OutcomeBlocked:
				blocked++
			case postrider.OutcomeAccepted:
				reached++
			default:
				t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
			}
		}
		seen := n.Connections(t)
		if !slices.Contains(seen, netip.AddrPortFrom(testkit.Public, 80)) {
			t.Errorf("%s: the public address was never reached", name)
		}
		if i := slices.IndexFunc(seen, func(to netip.AddrPort) bool { return to != netip.AddrPortFrom(testkit.Public, 80) }); i >= 0 {
			t.Errorf("%s: reached %v", name, seen[i])
		}
	}
	// Each attempt has one lookup, so the address that was checked is the one that was dialled.
	if half := len(names) * rebindings / 2; blocked != half || reached != half {
		t.Errorf("%d attempts were blocked and %d arrived, want %d of each", blocked, reached, half)
	}
	testkit.Report(t, fmt.Appendf(nil, "%d attempts blocked, %d arrived, 0 elsewhere\n%s", blocked, reached, blindness(t, e)))
}

// answerOnce responds 200 to the first request and closes the connection.
func answerOnce(conn net.Conn) {
	io.ReadFull(conn, make([]byte, 1))
	io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, conn)
}

// blindness sends to forbidden targets, of which some exist, and returns how long that took.
// Neither the time nor the text of the error may show which exist.
func blindness(t *testing.T, e *door) (report string) {
	t.Helper()
	for _, target := range []struct{ name, url string }{
		{"listening", "http://10.0.0.%d/"},
		{"closed", "http://10.0.0.%d:8080/"},
		{"metadata", "http://169.254.169.%d/"},
		{"nowhere", "http://240.0.0.%d/"},
	} {
		var took []time.Duration
		for i := range 250 {
			a := send(t, e, routed(fmt.Sprintf(target.url, i)), testkit.Patience)
			if a.Outcome != postrider.OutcomeBlocked || a.Error != "target_forbidden" || a.ResponseBody != nil || a.RequestHead != nil {
				t.Errorf("%s: %+v", target.name, a)
			}
			took = append(took, a.Duration)
		}
		slices.Sort(took)
		report += fmt.Sprintf("%s: p10 %v, p50 %v, p90 %v\n", target.name, took[25], took[125], took[225])
	}
	return report
}
