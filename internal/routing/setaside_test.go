package routing_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// TestAnUnreadablePolicyIsReadAgain damages the policy of one of two endpoints before the table is
// filled, and repairs it in the store.
func TestAnUnreadablePolicyIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		directory, ids, log := memory.New(memory.Options{}), store.NewIDs(time.Now, nil), &bytes.Buffer{}
		account := store.NewID[postrider.AccountID](ids)
		put := func() postrider.EndpointID {
			id := store.NewID[postrider.EndpointID](ids)
			secret := postrider.Secret{ID: store.NewID[postrider.SecretID](ids), Endpoint: id}
			if _, err := directory.PutEndpoint(t.Context(), store.PutEndpoint{Secrets: []postrider.Secret{secret}, Endpoint: postrider.Endpoint{
				ID: id, Account: account, URL: "https://a.example", EventTypes: []postrider.Pattern{"*"},
				Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
			}}); err != nil {
				t.Fatal(err)
			}
			return id
		}
		bad, good := put(), put()
		document, err := store.EncodePolicy(postrider.DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		replace := func(document string) {
			if err := directory.SetPolicyDocument(t.Context(), bad, document); err != nil {
				t.Fatal(err)
			}
		}
		replace(strings.Replace(string(document), "concurrency", "concurency", 1))
		table := routing.New(directory, routing.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
		if err := table.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if to, ok := table.Lookup(bad); !ok || to.Endpoint.PolicyError == "" {
			t.Errorf("the damaged endpoint is %+v, want one with a PolicyError", to)
		}
		if matched, _ := table.Match(&postrider.Event{Account: account, Type: "order.created"}, 10); len(matched) != 2 ||
			matched[1].Endpoint.ID != good {
			t.Errorf("%d endpoints match, want both", len(matched))
		}
		if text := log.String(); strings.Count(text, "endpoint set aside") != 1 || !strings.Contains(text, "level=ERROR") ||
			!strings.Contains(text, bad.String()) {
			t.Errorf("logged: %s", text)
		}

		var heard []routing.Change
		table.Subscribe(func(c routing.Change) { heard = append(heard, c) })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = table.Run(ctx) })
		defer running.Wait()
		defer cancel()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(heard) != 0 {
			t.Errorf("heard %+v while the policy could not be read", heard)
		}
		version := table.Version()
		replace(string(document))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		to, ok := table.Lookup(bad)
		if !ok || to.Endpoint.PolicyError != "" || to.Endpoint.Policy.Concurrency != 10 || len(to.Secrets) != 1 {
			t.Errorf("after the mend: %+v", to)
		}
		if len(heard) != 1 || heard[0].Endpoint != bad || table.Version() != version {
			t.Errorf("heard %+v at version %d, want one change, and version %d", heard, table.Version(), version)
		}
		if text := log.String(); strings.Count(text, "endpoint set aside") != 1 || strings.Count(text, "no longer set aside") != 1 {
			t.Errorf("logged: %s", text)
		}
	})
}
