package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
)

// sender makes the attempts.
type sender struct {
	opts    options
	process *receivers
	egress  *egress.Egress
	sender  *webhook.Sender
	tallies []*tally
}

// plainVault is a vault that does not encrypt.
type plainVault struct{}

// DecryptSecret returns the text.
func (plainVault) DecryptSecret(_ context.Context, s postrider.Secret) (string, error) {
	return string(s.Encrypted), nil
}

// DecryptCredentials returns no credentials.
func (plainVault) DecryptCredentials(context.Context, postrider.Endpoint) (postrider.Credentials, error) {
	return postrider.Credentials{}, nil
}

func newSender(o options, process *receivers) (*sender, error) {
	door := egress.New(egress.Options{
		Reach: egress.Reach{
			AllowHTTP: true, AnyPort: true,
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		},
		Resolver: testkit.ResolverAt(process.nameserver), RootCAs: process.roots,
	})
	s := &sender{opts: o, process: process, egress: door, sender: webhook.New(door, plainVault{}, webhook.Options{})}
	for _, h := range testkit.Hostiles() {
		if o.only == "" || h.Group == o.only || strings.Contains(h.Name, o.only) {
			s.tallies = append(s.tallies, &tally{hostile: h, scheme: h.Schemes[0], outcomes: map[string]int{}})
		}
	}
	if len(s.tallies) == 0 {
		return nil, fmt.Errorf("no misbehaviour or group %q", o.only)
	}
	return s, nil
}

func (s *sender) rows() []*tally { return s.tallies }

// sendAll runs the misbehaviours that hold requests, one after the other, and at the same time the
// others, one after the other.
func (s *sender) sendAll(ctx context.Context) error {
	var running sync.WaitGroup
	var errs [2]error
	for lane, slow := range []bool{false, true} {
		mine := slices.DeleteFunc(slices.Clone(s.tallies), func(t *tally) bool { return t.hostile.Slow != slow })
		running.Go(func() { errs[lane] = s.sendLane(ctx, mine, lane) })
	}
	running.Wait()
	return errors.Join(append(errs[:], ctx.Err())...)
}

func (s *sender) sendLane(ctx context.Context, mine []*tally, lane int) error {
	end := time.Now().Add(s.opts.budget)
	for i, t := range mine {
		share := time.Until(end) / time.Duration(len(mine)-i)
		if err := s.play(ctx, t, lane, 2*share); err != nil {
			return err
		}
	}
	return nil
}

// play sends attempts to all receivers of one misbehaviour, at least one to each. After the time
// most it starts no more.
func (s *sender) play(ctx context.Context, t *tally, lane int, most time.Duration) error {
	set, err := s.process.ask(request{Name: t.hostile.Name, Scheme: t.scheme, Count: s.opts.receivers})
	if err != nil {
		return err
	}
	was, err := readUsage()
	if err != nil {
		return err
	}
	began := time.Now()
	slots := 1
	if t.hostile.Slow {
		slots = s.opts.slots
	}
	var running sync.WaitGroup
	for i, url := range set.URLs {
		to := endpoint(lane*len(set.URLs)+i, url)
		to.Endpoint.Revision = int64(set.Set)
		left := new(atomic.Int64)
		left.Store(int64(s.opts.requests))
		for range slots {
			running.Go(func() {
				for n := 0; left.Add(-1) >= 0 && (n == 0 || time.Since(began) < most) && ctx.Err() == nil; n++ {
					t.add(s.send(ctx, to))
				}
			})
		}
	}
	running.Wait()
	fmt.Fprintf(os.Stderr, "%-60s %6d in %v\n", t.hostile.Name, t.requests, time.Since(began).Round(time.Millisecond))
	is, err := readUsage()
	t.raised = is.peak - was.peak
	if err != nil {
		return err
	}
	over, err := s.process.ask(request{Stop: set.Set})
	t.again = over.Again
	return err
}

// send makes one attempt, and returns how long after its deadline it ended.
func (s *sender) send(ctx context.Context, to store.EndpointSnapshot) (postrider.Attempt, time.Duration) {
	began := time.Now()
	a := s.sender.Send(ctx, began.Add(s.opts.deadline), &postrider.Claimed{
		ID: postrider.DeliveryID{1}, Endpoint: to.Endpoint.ID, Event: &event, Attempt: 1,
	}, &to)
	return a, time.Since(began) - s.opts.deadline
}

// event is an event with 1 KB of data.
var event = postrider.Event{
	ID: postrider.EventID{2}, Type: "order.created", CreatedAt: time.Unix(1767225600, 0),
	Data: []byte(`{"order_id":42,"note":"` + strings.Repeat("x", 1000) + `"}`),
}

// endpoint returns the nth endpoint, with the URL. The same ids get other URLs later, so that the
// number of endpoints in the sender's memory does not influence the result.
func endpoint(n int, url string) store.EndpointSnapshot {
	to := store.EndpointSnapshot{Endpoint: postrider.Endpoint{URL: url, Policy: postrider.DefaultPolicy()}}
	binary.BigEndian.PutUint32(to.Endpoint.ID[:], uint32(n)+1)
	text := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	to.Secrets = []postrider.Secret{{ID: postrider.SecretID{1}, Endpoint: to.Endpoint.ID, Encrypted: []byte(text)}}
	return to
}

// tally counts the results of the attempts at one misbehaviour.
type tally struct {
	hostile testkit.Hostile
	scheme  string
	raised  int // growth of the peak of resident memory, in bytes
	again   int

	mu       sync.Mutex
	requests int
	outcomes map[string]int
	wrong    int
	first    error         // the first wrong result
	beyond   time.Duration // the longest time after a deadline
}

func (t *tally) add(a postrider.Attempt, beyond time.Duration) {
	var err error
	if a.Outcome != postrider.OutcomeTimedOut || beyond < 0 {
		err = t.hostile.Check(a)
	}
	outcome := string(a.Outcome)
	if a.Error != "" {
		class, _, _ := strings.Cut(a.Error, ":")
		outcome += " (" + class + ")"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests++; t.requests == 1 || beyond > t.beyond {
		t.beyond = beyond
	}
	t.outcomes[outcome]++
	if err != nil {
		t.wrong++
		t.first = cmp.Or(t.first, err)
	}
}

// seen lists the outcomes, the most frequent first.
func (t *tally) seen() string {
	names := slices.SortedFunc(maps.Keys(t.outcomes), func(a, b string) int {
		return cmp.Or(t.outcomes[b]-t.outcomes[a], strings.Compare(a, b))
	})
	for i, name := range names {
		if len(names) > 1 {
			names[i] = fmt.Sprintf("%s %d", name, t.outcomes[name])
		}
	}
	return strings.Join(names, ", ")
}
