package routing_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSubscriberHearsOfAChangeOnceTheTableHasIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		directory, ids := memory.New(memory.Options{}), store.NewIDs(time.Now, nil)
		table := routing.New(directory, routing.Options{Poll: time.Second})
		var heard []routing.Change
		table.Subscribe(func(c routing.Change) {
			if _, has := table.Lookup(c.Endpoint); !has {
				t.Errorf("%+v is reported before the table has the endpoint", c)
			}
			heard = append(heard, c)
		})
		put := func() postrider.EndpointID {
			e := postrider.Endpoint{
				ID: store.NewID[postrider.EndpointID](ids), URL: "https://a.example",
				EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
			}
			if _, err := directory.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
				t.Fatal(err)
			}
			return e.ID
		}
		here := put()
		table.Notify(here)
		table.Notify(here) // before Run looks
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = table.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		elsewhere := put() // a change by another node, which does not notify this one
		time.Sleep(time.Second)
		synctest.Wait()
		want := []routing.Change{{Endpoint: here}, {Endpoint: here, Due: true}, {Endpoint: elsewhere}}
		if len(heard) != len(want) {
			t.Fatalf("heard %+v, want %+v", heard, want)
		}
		for i := range want {
			if heard[i] != want[i] {
				t.Errorf("heard %+v, want %+v", heard[i], want[i])
			}
		}
	})
}
