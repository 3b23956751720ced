package ingest_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// discardInbox is an inbox that stores nothing and takes as long as a commit takes. It is also a
// dispatcher that admits everything and starts nothing.
type discardInbox struct {
	store.Inbox
	takes          time.Duration
	groups, events int
}

func (i *discardInbox) Publish(_ context.Context, p store.Publish) ([]store.Published, error) {
	answers := make([]store.Published, len(p.Batches))
	for n, batch := range p.Batches {
		answers[n] = store.Published{Events: make([]store.PublishedEvent, len(batch)), Conflict: -1}
		for j := range batch {
			answers[n].Events[j].ID = batch[j].Event.ID
		}
		i.events += len(batch)
	}
	i.groups++
	if i.takes > 0 {
		<-time.After(i.takes)
	}
	return answers, nil
}

func (*discardInbox) ClaimFanOuts(context.Context, store.ClaimFanOuts) ([]store.FanOut, error) {
	return nil, nil
}

func (*discardInbox) Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error {
	g := schedule.Grant{Token: 1, Leases: make([]schedule.Lease, len(ask))}
	for i := range ask {
		g.Leases[i] = schedule.Lease{Token: g.Token, For: time.Minute}
	}
	_, err := commit(g)
	return err
}

func (*discardInbox) Lag() time.Duration { return 0 }

func (*discardInbox) BulkWaits() int { return 0 }

// BenchmarkPublish measures the work of ingest for a publish with one delivery: the match, the
// group and the response. If a commit takes no time, every publish is a group of its own. If it
// takes time, publishes wait for it. That wait is in the time per operation, but not in the
// processor time.
func BenchmarkPublish(b *testing.B) {
	for name, takes := range map[string]time.Duration{"alone": 0, "grouped": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			directory, ids := memory.New(memory.Options{}), store.NewIDs(time.Now, nil)
			account := subscribed(b, directory, ids)
			table := routing.New(directory, routing.Options{})
			if err := table.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			parts := &discardInbox{takes: takes}
			in := ingest.New(parts, table, parts, ingest.Options{IDs: ids})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = in.Run(ctx) })
			defer running.Wait()
			defer cancel()

			data := bytes.Repeat([]byte("1"), 1000)
			b.ReportAllocs()
			b.SetParallelism(128)
			b.RunParallel(func(pb *testing.PB) {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				for pb.Next() {
					events := []postrider.Event{{Account: account, Type: "order.created", Data: data}}
					if got, err := in.Publish(ctx, events); err != nil || got[0].Deliveries != 1 {
						b.Error(got, err)
						return
					}
				}
			})
			b.ReportMetric(float64(parts.events)/float64(parts.groups), "events/group")
		})
	}
}

// subscribed returns an account with one endpoint.
func subscribed(b *testing.B, directory store.Directory, ids *store.IDs) postrider.AccountID {
	b.Helper()
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](ids), Account: store.NewID[postrider.AccountID](ids), URL: "https://a.example",
		EventTypes: []postrider.Pattern{"order.*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	if _, err := directory.PutEndpoint(b.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
		b.Fatal(err)
	}
	return e.Account
}
