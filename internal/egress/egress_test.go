package egress_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(tb testing.TB, opts egress.Options) *egress.Egress {
	tb.Helper()
	e := egress.New(opts)
	tb.Cleanup(e.Close)
	return e
}

// vectors returns the URLs that must be refused.
func vectors(tb testing.TB) (urls []string) {
	tb.Helper()
	for _, v := range testkit.Vectors(tb) {
		urls = append(urls, v.URL)
	}
	return urls
}
