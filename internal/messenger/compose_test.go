package messenger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/messenger"
	"github.com/postrider/postrider/internal/store"
)

// ill is a store that does not return the notices of one account. It returns err; if err is nil, it
// waits until the context ends.
type ill struct {
	messenger.Store
	account postrider.AccountID
	err     error
}

// Notices implements [messenger.Store].
func (s ill) Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error) {
	if q.Account != s.account {
		return s.Store.Notices(ctx, q)
	}
	if s.err == nil {
		<-ctx.Done()
		return store.Page[postrider.Notice]{}, ctx.Err()
	}
	return store.Page[postrider.Notice]{}, s.err
}

func TestAMessageThatCannotBeMadeIsTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"the store does not answer": nil, "the store fails": errors.New("host db7 is away")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, hook := newWorld(t), new(recorder)
				channels := map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: hook}
				sick, well := w.account("Sick"), w.account("Well")
				id := w.put(postrider.Destination{Account: sick, Address: "ann@acme.example", Language: "en", ConfirmedAt: confirmed})
				w.put(postrider.Destination{Account: well, Address: "bob@acme.example", Language: "en", ConfirmedAt: confirmed})
				w.messages = ill{w.Store, sick, fault}
				w.later(time.Second)
				w.notice(sick, postrider.NoticeDisabled)
				w.notice(well, postrider.NoticeDisabled)
				w.later(time.Hour)
				begun := time.Now()
				w.run(channels, func() bool { return w.result("email failed") == 1 && w.result("email sent") == 1 })
				if took := time.Since(begun); took > 6*time.Second {
					t.Errorf("the other destination got its message after %v, want 5 s at most", took)
				}
				if d := w.destination(id); d.LastError != string(postrider.FailureInternal) {
					t.Errorf("the error is %q", d.LastError)
				}
				for failures, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
					w.later(wait - time.Second)
					claimed, err := w.ClaimDestinations(t.Context(), store.ClaimDestinations{
						Channel: postrider.ChannelEmail, Max: 1, Lease: time.Minute,
						Token: 1,
					})
					if err != nil || len(claimed) != 0 {
						t.Errorf("a second before %v it is tried again: %v, %v", wait, claimed, err)
					}
					w.later(time.Second)
					w.run(channels, func() bool { return w.result("email failed") == failures+2 })
				}
				w.messages = w.Store
				w.later(time.Hour)
				w.run(channels, func() bool { return w.result("email sent") == 2 })
				if d := w.destination(id); d.Failures != 0 || d.LastError != "" {
					t.Errorf("in the end the destination is %+v", d)
				}
			})
		})
	}
}

func TestAMessageHasABoundOfNotices(t *testing.T) {
	t.Parallel()
	w, hook := newWorld(t), new(recorder)
	account := w.account("Acme")
	w.put(postrider.Destination{Account: account, Address: "ann@acme.example", Language: "en", ConfirmedAt: confirmed})
	var all []postrider.Notice
	for i := range 20_500 {
		if i%100 == 0 { // a hundred notices in each millisecond
			w.later(time.Millisecond)
		}
		all = append(all, postrider.Notice{
			ID: store.NewID[postrider.NoticeID](w.ids), Account: account, Kind: postrider.NoticeDisabled, Object: fmt.Sprint(i),
		})
	}
	if _, err := w.PutNotices(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		w.later(time.Hour)
		w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: hook}, func() bool { return w.result("email sent") == n+1 })
	}
	for i, want := range []string{"20,000 notices", "500 notices"} {
		if got := hook.all()[i].Subject; !strings.Contains(got, want) {
			t.Errorf("message %d is %q, want %s", i+1, got, want)
		}
	}
}

func TestLinksOfAccountsLeadToTheLoginOfThePlatform(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ login, public, owner, operator string }{
		{"", "https://hooks.acme.example", "https://hooks.acme.example/portal/notices", "https://hooks.acme.example/dashboard/notices"},
		{
			"https://app.acme.example/webhooks?tab=1", "https://hooks.acme.example",
			"https://app.acme.example/webhooks?portal_page=%2Fportal%2Fnotices&amp;tab=1", "https://hooks.acme.example/dashboard/notices",
		},
		{"https://app.acme.example/webhooks", "", "https://app.acme.example/webhooks?portal_page=%2Fportal%2Fnotices", ""},
	} {
		w, hook := newWorld(t), new(recorder)
		w.put(postrider.Destination{
			Account: w.account("Acme"), Channel: postrider.ChannelSlack, Address: "https://a.example",
			Ask: postrider.AskTest, ConfirmedAt: confirmed,
		})
		w.put(postrider.Destination{
			Channel: postrider.ChannelSlack, Address: "https://b.example", Ask: postrider.AskTest,
			ConfirmedAt: confirmed,
		})
		w.opts = messenger.Options{Brand: "Acme", PublicURL: tt.public, PortalLoginURL: tt.login}
		w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelSlack: hook}, func() bool { return w.result("slack sent") == 2 })
		for _, m := range hook.all() {
			want := tt.owner
			if m.To.Account.IsZero() {
				want = tt.operator
			}
			_, link, _ := strings.Cut(m.HTML, `href="`)
			if link, _, _ = strings.Cut(link, `"`); link != want {
				t.Errorf("with the login %q and the URL %q the link of %s is %q, want %q", tt.login, tt.public, m.To.Address, link, want)
			}
		}
	}
}
