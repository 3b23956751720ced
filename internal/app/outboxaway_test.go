package app

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type sourceVerbs = store.Sources

// oneSource is a store with one source.
type oneSource struct{ sourceVerbs }

func (oneSource) Sources(context.Context) ([]postrider.Source, error) {
	return []postrider.Source{{Name: "shop", URL: "postgres://reader@shop.example/shop?sslmode=disable"}}, nil
}

func TestAnExpungeSkipsSourcesThatAreAway(t *testing.T) {
	t.Parallel()
	dials := 0
	o := outboxes{store: oneSource{}, dial: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, errors.New("refused")
	}}
	expunge := func(away map[string]error) {
		t.Helper()
		if _, err := o.Expunge(t.Context(), away, "eve"); err == nil || !strings.Contains(err.Error(), "shop: ") {
			t.Errorf("while the source is away: %v", err)
		}
	}
	away := map[string]error{}
	expunge(away)
	first := dials
	expunge(away)
	if first == 0 || dials != first {
		t.Errorf("connections: %d in the first call of a round, %d after the second", first, dials)
	}
	expunge(map[string]error{})
	if dials == first {
		t.Error("the next round does not connect again")
	}
}
