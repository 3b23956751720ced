package app_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

// TestSourcesKeepToTheRulesForEgress names databases that are not allowed, in a network in which every address responds. The
// server tries them when a source is put, and when it reads one that was stored without a try.
func TestSourcesKeepToTheRulesForEgress(t *testing.T) {
	if _, outside := testkit.Alone(t); outside {
		return
	}
	public := testkit.Public.String()
	n := testkit.NewInternet(t, testkit.Zone{
		"inside.example.": {{"10.1.2.3"}}, "rebound.example.": {{public}, {"10.1.2.3"}}, "mixed.example.": {{public, "10.1.2.3"}},
	}, []int{5432}, func(net.Conn) {})
	b := besiege(t, n, t.TempDir())
	put := func(host, query string) (int, string) {
		body := map[string]any{"database_url": "postgres://reader@" + host + "/shop"}
		status, got := b.call(t.Context(), "PUT sources/shop"+query, body)
		return status, fmt.Sprint(got["detail"])
	}
	wantSeen := func(what string, want ...netip.AddrPort) {
		t.Helper()
		if seen := n.Connections(t); !slices.Equal(slices.Compact(seen), want) {
			t.Errorf("%s: connections to %v, want %v", what, seen, want)
		}
	}
	const refuses = "the rules for egress refuse "
	for _, host := range []string{
		"127.0.0.1", "[::1]", "localhost", "10.1.2.3", "[::ffff:10.1.2.3]", "169.254.169.254", "[fd00:ec2::254]", "0.0.0.0", "224.0.0.1",
		"inside.example",
	} {
		if status, detail := put(host, ""); status != http.StatusUnprocessableEntity || !strings.Contains(detail, refuses) {
			t.Errorf("%s: %d %s", host, status, detail)
		}
		wantSeen(host)
	}

	there := netip.AddrPortFrom(testkit.Public, 5432)
	if _, detail := put("rebound.example", ""); strings.Contains(detail, refuses) {
		t.Errorf("a public address: %s", detail)
	}
	wantSeen("a public address", there)
	if _, detail := put("rebound.example", ""); !strings.Contains(detail, refuses+"10.1.2.3:5432") {
		t.Errorf("the name of another address: %s", detail)
	}
	wantSeen("the name of another address")
	put("mixed.example", "")
	wantSeen("a name with a public and a private address", there)

	if status, detail := put("10.1.2.3", "?check=false"); status != http.StatusCreated {
		t.Fatalf("without a check: %d %s", status, detail)
	}
	testkit.Eventually(t, "the state says that the reader was refused", func() bool {
		_, got := b.call(t.Context(), "GET sources/shop", nil)
		state, _ := got["state"].(map[string]any)
		return strings.Contains(fmt.Sprint(state["error"]), refuses+"10.1.2.3:5432")
	})
	wantSeen("the reader")
	testkit.Report(t, nil)
}
