package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var destinations = []verb{
	{"PutDestination", []sentence{
		{"the destination comes back as it was, and waits", putDestination},
		{"with a ConfirmedAt, it is confirmed from now on", putDestinationConfirmed},
		{"a second one of its account with the same channel and address is ErrConflict", putDestinationTwice},
		{"if the account has most destinations already, it is ErrTooMany", putDestinationTooMany},
	}},
	{"Destinations", []sentence{
		{"they are listed newest first, page by page", destinationsPages},
		{"each filter selects", destinationsFilters},
		{"a cursor that no page gave is an InvalidError", destinationsCursor},
	}},
	{"ChangeDestination", []sentence{
		{"it changes what is set, and nothing else", changeDestination},
		{"a confirmation clears Unsubscribed, and the first one sets ToldUntil", changeDestinationConfirms},
		{"confirming again changes nothing", changeDestinationConfirmsAgain},
		{"unsubscribing again from a kind, or from one of all kinds, changes nothing", changeDestinationUnsubscribes},
		{"an Ask clears RefusedAt, and the destination can be claimed at once, unless it is leased", changeDestinationAsks},
		{"one that does not exist is ErrNotFound", changeDestinationNotFound},
	}},
	{"DeleteDestination", []sentence{
		{"it is gone; one that does not exist is ErrNotFound", deleteDestination},
		{"DeleteAccount deletes those of the account, and no others", deleteDestinationsOfAccount},
	}},
	{"ClaimDestinations", []sentence{
		{"one with an Ask needs a message, and of its channel alone", claimDestinationsAsked},
		{"one that is confirmed needs a message if its scope has a notice older than Wait that is not told", claimDestinationsNotices},
		{"one that is not confirmed, or was refused, needs none", claimDestinationsNone},
		{"if more than Max need one, it takes the operator's first, then those that have been due for longest", claimDestinationsOrder},
		{"a claimed destination is due again when its lease has ended", claimDestinationsLease},
		{"while the store is held, it leases none", claimDestinationsHeld},
		{"parallel calls never claim one twice", claimDestinationsParallel},
	}},
	{"SettleDestination", []sentence{
		{"it records the message, ends the lease, and the destination is due again after Wait", settleDestination},
		{"with an Error, Failures is one more; without one, it is 0", settleDestinationFailures},
		{"if a person has asked for another message meanwhile, the destination is due at once", settleDestinationAskedMeanwhile},
		{"one that the server refused gets nothing until a person asks", settleDestinationRefused},
		{"another token is ErrFenced, and changes nothing", settleDestinationFenced},
	}},
}

// newDestination returns a destination of the account that is not stored yet. With the zero
// account it belongs to the operator.
func (w *world) newDestination(account postrider.AccountID) postrider.Destination {
	id := newID[postrider.DestinationID](w)
	return postrider.Destination{
		ID: id, Account: account, Channel: postrider.ChannelEmail, Address: id.String() + "@acme.example", Language: "de",
		Kinds: []postrider.NoticeKind{postrider.NoticeDisabled, postrider.NoticeReplay}, CreatedAt: id.Time(),
	}
}

// destination stores a destination of the account, confirmed or not.
func (w *world) destination(account postrider.AccountID, confirmed bool) postrider.Destination {
	w.Helper()
	d := w.newDestination(account)
	if confirmed {
		d.ConfirmedAt = d.CreatedAt
	}
	w.ok(w.PutDestination(w.Context(), d, 100))
	return w.theDestination(d.ID)
}

// theDestination returns the stored destination.
func (w *world) theDestination(id postrider.DestinationID) postrider.Destination {
	w.Helper()
	all := w.destinations(store.DestinationQuery{ID: id})
	if len(all) != 1 {
		w.Fatalf("destination %s is listed %d times, want once", id, len(all))
	}
	return all[0]
}

func (w *world) destinations(q store.DestinationQuery) []postrider.Destination {
	w.Helper()
	page, err := w.Destinations(w.Context(), q)
	w.ok(err)
	return page.Items
}

func (w *world) changedDestination(c store.ChangeDestination) postrider.Destination {
	w.Helper()
	d, err := w.ChangeDestination(w.Context(), c)
	w.ok(err)
	return d
}

// noticed stores a notice of the account. With the zero account it is a notice of the
// installation.
func (w *world) noticed(account postrider.AccountID) {
	w.Helper()
	id := newID[postrider.NoticeID](w)
	n := postrider.Notice{ID: id, Account: account, Kind: postrider.NoticeDisabled, Object: id.String(), CreatedAt: id.Time()}
	_, err := w.PutNotices(w.Context(), []postrider.Notice{n})
	w.ok(err)
}

// claimDestinations claims destinations of the email channel.
func (w *world) claimDestinations(most int, lease time.Duration) (ids []postrider.DestinationID, token postrider.Token) {
	w.Helper()
	token = w.token()
	claimed, err := w.ClaimDestinations(w.Context(), store.ClaimDestinations{
		Channel: postrider.ChannelEmail, Max: most, Token: token, Lease: lease,
	})
	w.ok(err)
	for _, d := range claimed {
		w.same("a claimed destination", d, w.theDestination(d.ID))
		ids = append(ids, d.ID)
	}
	return ids, token
}

func putDestination(w *world) {
	want, all := w.newDestination(w.account()), w.newDestination(postrider.AccountID{})
	all.Kinds, all.Channel, all.Ask = nil, postrider.ChannelSlack, postrider.AskConfirmation
	none := w.newDestination(want.Account)
	none.Kinds = []postrider.NoticeKind{}
	for _, d := range []postrider.Destination{want, all, none} {
		w.ok(w.PutDestination(w.Context(), d, 10))
		got := w.theDestination(d.ID)
		w.same("the destination", got, d)
		w.same("its state", got.State(), postrider.DestinationWaiting)
		w.same("whether it has all kinds", got.Kinds == nil, d.Kinds == nil)
	}
}

func putDestinationConfirmed(w *world) {
	got := w.destination(w.account(), true)
	w.same("its state", got.State(), postrider.DestinationActive)
	w.near("when it was confirmed", got.ConfirmedAt.Sub(w.now()), 0)
	w.near("until when it was told", got.ToldUntil.Time().Sub(w.now()), 0)
}

func putDestinationTwice(w *world) {
	first := w.newDestination(w.account())
	operator := first
	operator.ID, operator.Account = newID[postrider.DestinationID](w), postrider.AccountID{}
	for _, d := range []postrider.Destination{first, operator} {
		w.ok(w.PutDestination(w.Context(), d, 10))
		d.ID = newID[postrider.DestinationID](w)
		w.refuses(w.PutDestination(w.Context(), d, 10), postrider.ErrConflict)
		d.Channel = postrider.ChannelSlack
		w.ok(w.PutDestination(w.Context(), d, 10))
	}
}

func putDestinationTooMany(w *world) {
	account := w.account()
	for _, of := range []postrider.AccountID{account, {}} {
		for range 2 {
			w.ok(w.PutDestination(w.Context(), w.newDestination(of), 2))
		}
		w.refuses(w.PutDestination(w.Context(), w.newDestination(of), 2), store.ErrTooMany)
	}
	w.ok(w.PutDestination(w.Context(), w.newDestination(w.account()), 2))
	w.same("how many there are", len(w.destinations(store.DestinationQuery{})), 5)
}

func destinationsPages(w *world) {
	account := w.account()
	var want []postrider.Destination
	for range 3 {
		want = append([]postrider.Destination{w.destination(account, false)}, want...)
	}
	q := store.DestinationQuery{Paging: store.Paging{Limit: 2}}
	page, err := w.Destinations(w.Context(), q)
	w.ok(err)
	w.same("the first page", page.Items, want[:2])
	q.Cursor = page.Next
	page, err = w.Destinations(w.Context(), q)
	w.ok(err)
	w.same("the second page", page.Items, want[2:])
	w.same("the cursor of the last page", page.Next, "")
}

func destinationsFilters(w *world) {
	mine, other, operator := w.destination(w.account(), false), w.destination(w.account(), false), w.destination(postrider.AccountID{}, false)
	for _, c := range []struct {
		q    store.DestinationQuery
		want []postrider.Destination
	}{
		{store.DestinationQuery{}, []postrider.Destination{operator, other, mine}},
		{store.DestinationQuery{Account: mine.Account}, []postrider.Destination{mine}},
		{store.DestinationQuery{Operator: true}, []postrider.Destination{operator}},
		{store.DestinationQuery{ID: other.ID}, []postrider.Destination{other}},
		{store.DestinationQuery{ID: other.ID, Account: other.Account}, []postrider.Destination{other}},
		{store.DestinationQuery{ID: other.ID, Account: mine.Account}, nil},
		{store.DestinationQuery{ID: operator.ID, Account: mine.Account}, nil},
	} {
		w.same(fmt.Sprintf("the destinations of %+v", c.q), w.destinations(c.q), c.want)
	}
}

func destinationsCursor(w *world) {
	_, err := w.Destinations(w.Context(), store.DestinationQuery{Paging: store.Paging{Cursor: "!"}})
	w.refuses(err, postrider.ErrInvalid)
}

func changeDestination(w *world) {
	want, other := w.destination(w.account(), false), w.destination(w.account(), false)
	want.Language = "en"
	w.same("with another language", w.changedDestination(store.ChangeDestination{ID: want.ID, Language: "en"}), want)
	want.Kinds = nil
	w.same("with all kinds", w.changedDestination(store.ChangeDestination{ID: want.ID, Kinds: &want.Kinds}).Kinds == nil, true)
	want.Kinds = []postrider.NoticeKind{postrider.NoticeChore}
	w.same("with one kind", w.changedDestination(store.ChangeDestination{ID: want.ID, Kinds: &want.Kinds}), want)
	want.Ask = postrider.AskTest
	w.same("with a test", w.changedDestination(store.ChangeDestination{ID: want.ID, Ask: postrider.AskTest}), want)
	w.same("as it is stored", w.theDestination(want.ID), want)
	w.same("another one", w.theDestination(other.ID), other)
}

func changeDestinationConfirms(w *world) {
	d := w.destination(w.account(), false)
	first := w.changedDestination(store.ChangeDestination{ID: d.ID, Confirm: true})
	w.same("its state", first.State(), postrider.DestinationActive)
	w.near("until when it was told", first.ToldUntil.Time().Sub(w.now()), 0)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Unsubscribe: postrider.AllKinds})
	w.passed(2 * time.Millisecond)
	again := w.changedDestination(store.ChangeDestination{ID: d.ID, Confirm: true})
	w.same("its state", again.State(), postrider.DestinationActive)
	w.same("until when it was told", again.ToldUntil, first.ToldUntil)
	w.same("whether it was confirmed later", again.ConfirmedAt.After(first.ConfirmedAt), true)
}

func changeDestinationConfirmsAgain(w *world) {
	d := w.destination(w.account(), true)
	w.passed(2 * time.Millisecond)
	w.same("the destination", w.changedDestination(store.ChangeDestination{ID: d.ID, Confirm: true}), d)
}

func changeDestinationUnsubscribes(w *world) {
	d := w.destination(w.account(), true)
	for range 2 {
		d = w.changedDestination(store.ChangeDestination{ID: d.ID, Unsubscribe: postrider.NoticeReplay})
		w.same("what it no longer wants", d.Unsubscribed, []postrider.NoticeKind{postrider.NoticeReplay})
		w.same("its state", d.State(), postrider.DestinationActive)
	}
	w.same("whether it wants the kind", d.Wants(postrider.NoticeReplay), false)
	w.same("whether it wants another kind", d.Wants(postrider.NoticeDisabled), true)
	d = w.changedDestination(store.ChangeDestination{ID: d.ID, Unsubscribe: postrider.AllKinds})
	w.same("its state", d.State(), postrider.DestinationUnsubscribed)
	w.same("one of all kinds", w.changedDestination(store.ChangeDestination{ID: d.ID, Unsubscribe: postrider.NoticeDisabled}), d)
	w.same("as it is stored", w.theDestination(d.ID), d)
}

func changeDestinationAsks(w *world) {
	d := w.destination(w.account(), true)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	_, token := w.claimDestinations(10, long)
	w.ok(w.SettleDestination(w.Context(), store.SettleDestination{
		ID: d.ID, Token: token, Ask: postrider.AskTest, Error: "550 no such user", Refused: true, Wait: long,
	}))
	w.same("its state", w.theDestination(d.ID).State(), postrider.DestinationRefused)
	d = w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskConfirmation})
	w.same("its state", d.State(), postrider.DestinationActive)
	ids, _ := w.claimDestinations(10, long)
	w.same("what can be claimed", ids, []postrider.DestinationID{d.ID})
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	ids, _ = w.claimDestinations(10, long)
	w.same("what can be claimed during the lease", ids, []postrider.DestinationID{})
}

func changeDestinationNotFound(w *world) {
	_, err := w.ChangeDestination(w.Context(), store.ChangeDestination{ID: newID[postrider.DestinationID](w), Confirm: true})
	w.refuses(err, postrider.ErrNotFound)
}

func deleteDestination(w *world) {
	d, other := w.destination(w.account(), true), w.destination(w.account(), true)
	w.ok(w.DeleteDestination(w.Context(), d.ID))
	w.same("the destinations", w.destinations(store.DestinationQuery{}), []postrider.Destination{other})
	w.refuses(w.DeleteDestination(w.Context(), d.ID), postrider.ErrNotFound)
}

func deleteDestinationsOfAccount(w *world) {
	d, other, operator := w.destination(w.account(), true), w.destination(w.account(), true), w.destination(postrider.AccountID{}, true)
	w.destination(d.Account, false)
	w.ok(w.DeleteAccount(w.Context(), d.Account))
	w.same("the destinations", w.destinations(store.DestinationQuery{}), []postrider.Destination{operator, other})
}

func claimDestinationsAsked(w *world) {
	d, quiet, slack := w.newDestination(w.account()), w.newDestination(w.account()), w.newDestination(w.account())
	d.Ask, slack.Ask, slack.Channel = postrider.AskConfirmation, postrider.AskTest, postrider.ChannelSlack
	for _, d := range []postrider.Destination{d, quiet, slack} {
		w.ok(w.PutDestination(w.Context(), d, 10))
	}
	ids, _ := w.claimDestinations(10, long)
	w.same("what was claimed", ids, []postrider.DestinationID{d.ID})
}

func claimDestinationsNotices(w *world) {
	account := w.account()
	w.noticed(account)
	w.passed(2 * time.Millisecond)
	mine, other, operator := w.destination(account, true), w.destination(w.account(), true), w.destination(postrider.AccountID{}, true)
	w.passed(2 * time.Millisecond)
	ids, _ := w.claimDestinations(10, long)
	w.same("what needs a message before the notice", ids, []postrider.DestinationID{})
	w.noticed(account)
	w.passed(2 * time.Millisecond)
	claimed, err := w.ClaimDestinations(w.Context(), store.ClaimDestinations{
		Channel: postrider.ChannelEmail, Max: 10, Wait: long, Token: w.token(), Lease: long,
	})
	w.ok(err)
	w.same("what needs a message while the notice is young", claimed, []postrider.Destination{})
	ids, _ = w.claimDestinations(10, long)
	w.same("what needs a message", sorted(ids), []postrider.DestinationID{mine.ID, operator.ID})
	w.noticed(postrider.AccountID{})
	w.passed(2 * time.Millisecond)
	ids, _ = w.claimDestinations(10, long)
	w.same("what needs a message about the installation, during the lease", ids, []postrider.DestinationID{})
	w.same("another account's destination", w.theDestination(other.ID), other)
}

// sorted returns the ids in the order in which they were made.
func sorted(ids []postrider.DestinationID) []postrider.DestinationID {
	return slices.SortedFunc(slices.Values(ids), postrider.DestinationID.Compare)
}

func claimDestinationsNone(w *world) {
	account := w.account()
	w.destination(account, false)
	refused := w.destination(account, true)
	w.passed(2 * time.Millisecond)
	w.noticed(account)
	w.passed(2 * time.Millisecond)
	ids, token := w.claimDestinations(10, long)
	w.same("what needs a message", ids, []postrider.DestinationID{refused.ID})
	w.ok(w.SettleDestination(w.Context(), store.SettleDestination{ID: refused.ID, Token: token, Error: "550", Refused: true}))
	ids, _ = w.claimDestinations(10, long)
	w.same("what needs a message afterwards", ids, []postrider.DestinationID{})
}

func claimDestinationsOrder(w *world) {
	var want []postrider.DestinationID
	for _, account := range []postrider.AccountID{w.account(), w.account(), {}} {
		d := w.newDestination(account)
		d.Ask = postrider.AskConfirmation
		w.ok(w.PutDestination(w.Context(), d, 10))
		w.passed(2 * time.Millisecond)
		want = append(want, d.ID)
	}
	for _, want := range []postrider.DestinationID{want[2], want[0], want[1]} {
		ids, _ := w.claimDestinations(1, long)
		w.same("what was claimed", ids, []postrider.DestinationID{want})
	}
}

func claimDestinationsLease(w *world) {
	d := w.destination(w.account(), true)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	_, old := w.claimDestinations(1, brief)
	w.eventually("the lease ends", func() bool {
		ids, _ := w.claimDestinations(1, long)
		return len(ids) == 1
	})
	w.refuses(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: old}), postrider.ErrFenced)
}

func claimDestinationsHeld(w *world) {
	d := w.destination(w.account(), true)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	_, err := w.PutHold(w.Context(), "restored")
	w.ok(err)
	ids, _ := w.claimDestinations(10, long)
	w.same("what was claimed while it is held", ids, []postrider.DestinationID{})
	_, err = w.Resume(w.Context())
	w.ok(err)
	ids, _ = w.claimDestinations(10, long)
	w.same("what was claimed afterwards", ids, []postrider.DestinationID{d.ID})
}

func claimDestinationsParallel(w *world) {
	const each, callers = 10, 4
	account := w.account()
	for range each * callers {
		d := w.newDestination(account)
		d.Ask = postrider.AskConfirmation
		w.ok(w.PutDestination(w.Context(), d, 100))
	}
	var claims [callers][]postrider.Destination
	var errs [callers]error
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			claims[i], errs[i] = w.ClaimDestinations(w.Context(), store.ClaimDestinations{
				Channel: postrider.ChannelEmail, Max: 2 * each, Token: w.token(), Lease: long,
			})
		})
	}
	running.Wait()
	seen := map[postrider.DestinationID]bool{}
	for i, claimed := range claims {
		w.ok(errs[i])
		for _, d := range claimed {
			if seen[d.ID] {
				w.Errorf("%s was claimed twice", d.ID)
			}
			seen[d.ID] = true
		}
	}
}

func settleDestination(w *world) {
	d := w.destination(w.account(), true)
	w.passed(2 * time.Millisecond)
	w.noticed(d.Account)
	w.passed(2 * time.Millisecond)
	ids, token := w.claimDestinations(10, long)
	w.same("what was claimed", ids, []postrider.DestinationID{d.ID})
	told := store.FirstNotice(w.now())
	w.ok(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: token, Told: told, Sent: true, Wait: brief}))
	got := w.theDestination(d.ID)
	w.near("when the message was sent", got.LastSentAt.Sub(w.now()), 0)
	d.ToldUntil = told
	w.same("the destination", got, d, cmpopts.IgnoreFields(postrider.Destination{}, "LastSentAt"))
	w.passed(2 * time.Millisecond)
	w.noticed(d.Account)
	w.eventually("it is due again", func() bool {
		ids, _ := w.claimDestinations(10, long)
		return len(ids) == 1
	})
}

func settleDestinationFailures(w *world) {
	d := w.destination(w.account(), true)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	for failures := 1; failures <= 2; failures++ {
		_, token := w.claimDestinations(1, long)
		w.ok(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: token, Ask: postrider.AskTest, Error: "no route"}))
		got := w.theDestination(d.ID)
		w.same("the failures", got.Failures, failures)
		w.same("the error", got.LastError, "no route")
		w.same("what is asked for", got.Ask, postrider.AskTest)
		w.same("when a message was sent", got.LastSentAt, time.Time{})
	}
	_, token := w.claimDestinations(1, long)
	w.ok(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: token, Ask: postrider.AskTest, Sent: true}))
	w.same("the destination", w.theDestination(d.ID), d, cmpopts.IgnoreFields(postrider.Destination{}, "LastSentAt"))
}

func settleDestinationAskedMeanwhile(w *world) {
	d := w.destination(w.account(), true)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	_, token := w.claimDestinations(1, long)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskConfirmation})
	w.ok(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: token, Ask: postrider.AskTest, Sent: true, Wait: long}))
	w.same("what is asked for", w.theDestination(d.ID).Ask, postrider.AskConfirmation)
	ids, _ := w.claimDestinations(1, long)
	w.same("what can be claimed", ids, []postrider.DestinationID{d.ID})
}

func settleDestinationRefused(w *world) {
	d := w.destination(w.account(), false)
	w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskConfirmation})
	_, token := w.claimDestinations(1, long)
	w.ok(w.SettleDestination(w.Context(), store.SettleDestination{
		ID: d.ID, Token: token, Ask: postrider.AskConfirmation, Error: "550 no such user", Refused: true,
	}))
	got := w.theDestination(d.ID)
	w.same("its state", got.State(), postrider.DestinationRefused)
	w.same("what is asked for", got.Ask, postrider.Ask(""))
	w.near("when it was refused", got.RefusedAt.Sub(w.now()), 0)
	ids, _ := w.claimDestinations(1, long)
	w.same("what can be claimed", ids, []postrider.DestinationID{})
}

func settleDestinationFenced(w *world) {
	d := w.destination(w.account(), true)
	want := w.changedDestination(store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest})
	_, token := w.claimDestinations(1, long)
	w.refuses(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: token + 1, Sent: true}), postrider.ErrFenced)
	w.same("the destination", w.theDestination(d.ID), want)
	w.ok(w.DeleteDestination(w.Context(), d.ID))
	w.refuses(w.SettleDestination(w.Context(), store.SettleDestination{ID: d.ID, Token: token, Sent: true}), postrider.ErrFenced)
}
