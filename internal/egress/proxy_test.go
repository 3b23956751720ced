package egress_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/egress"
)

func TestParseProxy(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"http://proxy:3128", "https://us:canary@proxy.example:443/", "socks5://127.0.0.1:1080", "http://[::1]:3128", "socks5://us@proxy:1",
	} {
		if u, err := egress.ParseProxy(good); err != nil || u.Scheme+"://" != good[:strings.Index(good, "//")+2] {
			t.Errorf("ParseProxy(%q) = %v, %v", good, u, err)
		}
	}
	for _, bad := range []string{
		"", "canary", "canary:3128", "http://canary", "http://:3128", "http://canary:0", "http://canary:99999", "ftp://canary:21",
		"socks5h://canary:1080", "http://canary:1/path", "http://canary:1?q", "http://canary:1/#f", "http://:canary@proxy:1",
		"http://canary%zz@proxy:1", "socks5://" + strings.Repeat("canary", 50) + "@proxy:1",
	} {
		if u, err := egress.ParseProxy(bad); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("ParseProxy(%q) = %v, %v", bad, u, err)
		}
	}
}
