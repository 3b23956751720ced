// Package messenger sends notices to destinations, by email and to Slack-compatible webhooks.
//
// Every few seconds a [Messenger] looks for destinations that need a message. One node leases a
// destination, makes one message of all notices that the destination was not told yet, and sends
// it. Then it moves the destination's mark (ToldUntil) behind these notices. So a message needs no
// row of its own, and a thousand notices at once are one message. A destination gets at most one
// message in Options.Interval.
//
// It promises:
//
//   - A destination that its reader has not confirmed gets only the message that asks for
//     the confirmation.
//   - Nothing waits for a message: not the delivery of events, not the API, and not another
//     channel. Making and sending a message have deadlines. The lease of a destination is
//     longer than all of these deadlines together.
//   - A message that could not be made or sent is tried again after 1, 2, 4 minutes and so
//     on, up to an hour. It then includes the notices that came meanwhile. An address that
//     the mail server refuses for good is not tried again until a person asks for it.
//   - Every notice that a destination wants is shown or counted in a message. If the server
//     crashes after it sent a message and before it recorded that, the message is repeated
//     with the same Message-ID.
//   - No text of a notice, an account or an endpoint can add a header to an email.
//   - No log line and no error has an address or the URL of a webhook.
//
// It does not sign emails with DKIM: that is the mail server's work.
package messenger

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

const (
	// pollEvery is the time between two searches for destinations that need a message.
	pollEvery = 5 * time.Second
	// batchSize is how many destinations of a channel are leased together. Their emails share a
	// connection.
	batchSize = 20
	// sendTime is the time limit for sending a batch.
	sendTime = time.Minute
	// composeTime is the time limit for making one message.
	composeTime = 5 * time.Second
	// settleTime is the time limit for recording the result of one message.
	settleTime = 5 * time.Second
	// leaseTime is longer than making, sending and recording all messages of a batch can take.
	leaseTime = batchSize*composeTime + sendTime + batchSize*settleTime + 10*time.Second
	// The first and the longest wait after a message that could not be sent.
	firstRetry, lastRetry = time.Minute, time.Hour
)

// Store has the verbs that a messenger needs.
type Store interface {
	// Notices is the method of store.Notices.
	Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error)
	// ClaimDestinations is the method of store.Destinations.
	ClaimDestinations(ctx context.Context, c store.ClaimDestinations) ([]postrider.Destination, error)
	// SettleDestination is the method of store.Destinations.
	SettleDestination(ctx context.Context, s store.SettleDestination) error
	// Endpoints is the method of store.Directory.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// Accounts is the method of store.Access.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// Clock returns this process's estimate of the store's time.
	Clock() *store.Clock
}

// Signer signs the payloads of links.
type Signer interface {
	// Sign returns a text for a URL. The text contains the payload and proves that this
	// installation made it.
	Sign(ctx context.Context, payload []byte) (string, error)
}

// Channel sends messages.
type Channel interface {
	// Send sends the messages. It calls done with the index and the result of each message as soon
	// as the result is known. It returns soon after ctx has ended, and has then called done for all
	// messages. An error that matches [ErrRefused] says that trying again is useless. The text of
	// an error begins with a [postrider.Failure], and is shown to people.
	Send(ctx context.Context, messages []Message, done func(i int, err error))
}

// ErrRefused says that the server refused an address for good.
var ErrRefused = errors.New(string(postrider.FailureAddress))

// Deps has the parts that a [Messenger] depends on. None may be nil.
type Deps struct {
	Store    Store
	Signer   Signer
	Channels map[postrider.Channel]Channel // messages of a missing channel are not sent
}

// Options tunes a messenger. The zero value is the default.
type Options struct {
	// Interval is the time between two messages to one destination. Default 10 minutes.
	Interval time.Duration
	// Gather is the age of the oldest unsent notice at which a message is sent. So the notices of
	// one incident are in one message. Default one minute.
	Gather time.Duration
	// Brand is the name of the platform, in subjects and texts. Default Postrider.
	Brand string
	// PublicURL is the start of links. Empty: messages have no links.
	PublicURL string
	// PortalLoginURL is the page of the platform that opens the customer portal. Links in messages
	// for accounts lead there, because nobody can log in at the portal itself. The query parameter
	// portal_page has the path of the page. Empty: links lead to the portal.
	PortalLoginURL string
	// Templates are the layouts of emails. Default: the built-in templates.
	Templates *Templates
	// Hooks are called for each message. Default: none.
	Hooks observe.Hooks
	// Log receives one line for each message. Default: discard.
	Log *slog.Logger
}

// withDefaults replaces the zero fields by their defaults.
func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, 10*time.Minute)
	o.Gather = cmp.Or(o.Gather, time.Minute)
	o.Brand = cmp.Or(o.Brand, "Postrider")
	o.Templates = cmp.Or(o.Templates, builtIn())
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Messenger sends messages. It may run on several nodes at once.
type Messenger struct {
	Deps
	opts Options

	mu sync.Mutex
	// failing has the destinations to which the last message could not be sent, with the time of
	// the failure. Entries older than two hours are removed. This node would have tried again by
	// then, so another node sends to the destination now, or the destination was deleted.
	failing map[postrider.Channel]map[postrider.DestinationID]time.Time
}

// New returns a messenger.
func New(deps Deps, opts Options) *Messenger {
	m := &Messenger{Deps: deps, opts: opts.withDefaults(), failing: map[postrider.Channel]map[postrider.DestinationID]time.Time{}}
	for name := range deps.Channels {
		m.failing[name] = map[postrider.DestinationID]time.Time{}
	}
	return m
}

// Run sends messages until ctx ends. It gives up a message that it is sending at that moment.
func (m *Messenger) Run(ctx context.Context) error {
	var channels sync.WaitGroup
	for name, channel := range m.Channels {
		channels.Go(func() { m.serve(ctx, name, channel) })
	}
	channels.Wait()
	return nil
}

// serve sends the messages of one channel.
func (m *Messenger) serve(ctx context.Context, name postrider.Channel, channel Channel) {
	for {
		n, err := m.round(ctx, name, channel)
		if err != nil && ctx.Err() == nil {
			m.opts.Log.WarnContext(ctx, "no notices sent", "channel", name, "error", err)
		}
		if (n < batchSize || err != nil) && !batch.Sleep(ctx, pollEvery) || ctx.Err() != nil {
			return
		}
	}
}

// round sends the messages of a batch of destinations, and returns the number of destinations.
func (m *Messenger) round(ctx context.Context, name postrider.Channel, channel Channel) (int, error) {
	token := postrider.Token(rand.Int64N(1<<62) + 1) // not 0, which means no lease
	claimed, err := m.Store.ClaimDestinations(ctx, store.ClaimDestinations{
		Channel: name, Max: batchSize, Wait: m.opts.Gather, Token: token, Lease: leaseTime,
	})
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(claimed, func(a, b postrider.Destination) int {
		// The operator's destinations come first: their account is zero.
		return slices.Compare(a.Account[:], b.Account[:])
	})
	var messages []Message
	var errs []error
	for _, d := range claimed {
		message, err := m.compose(ctx, d)
		switch {
		case ctx.Err() != nil: // the server stops; the lease ends by itself
			return len(claimed), errors.Join(errs...)
		case err != nil:
			errs = append(errs, m.settle(ctx, token, Message{To: d}, err))
		case message.Subject == "":
			errs = append(errs, m.record(ctx, store.SettleDestination{ID: d.ID, Token: token, Ask: d.Ask, Told: message.told}))
		default:
			messages = append(messages, message)
		}
	}
	within, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if len(messages) > 0 {
		channel.Send(within, messages, func(i int, err error) { errs = append(errs, m.settle(ctx, token, messages[i], err)) })
	}
	return len(claimed), errors.Join(errs...)
}

// settle records the result of a message, and calls the hook. err says why the message was not made
// or not sent.
func (m *Messenger) settle(ctx context.Context, token postrider.Token, sent Message, err error) error {
	d := sent.To
	s := store.SettleDestination{ID: d.ID, Token: token, Ask: d.Ask, Wait: m.opts.Interval}
	result := observe.MessageSent
	switch {
	case err == nil:
		s.Told, s.Sent = sent.told, true
		if d.Ask == postrider.AskConfirmation {
			s.Wait = 0
		}
		m.opts.Log.InfoContext(ctx, "message sent", "destination", d, "ask", string(d.Ask), "notices", sent.notices)
	case errors.Is(err, ErrRefused):
		result = observe.MessageRefused
		s.Error, s.Refused = err.Error(), true
	default:
		result = observe.MessageFailed
		s.Error, s.Wait = err.Error(), min(firstRetry<<min(d.Failures, 10), lastRetry)
	}
	if err != nil {
		m.opts.Log.WarnContext(ctx, "message not sent", "destination", d, "ask", string(d.Ask), "failures", d.Failures+1, "error", err)
	}
	m.opts.Hooks.MessageDone.Call(observe.MessageDone{Channel: d.Channel, Result: result, Failing: m.count(d, err == nil)})
	return m.record(ctx, s)
}

// record ends the lease of a destination. It continues when ctx is cancelled. Otherwise a shutdown
// could cause a message that was already sent to be sent again.
func (m *Messenger) record(ctx context.Context, s store.SettleDestination) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := m.Store.SettleDestination(within, s)
	if errors.Is(err, postrider.ErrFenced) { // the destination was deleted meanwhile
		return nil
	}
	return err
}

// count notes whether the last message to the destination was sent. It returns the number of
// failing destinations of the channel.
func (m *Messenger) count(d postrider.Destination, sent bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	failing, now := m.failing[d.Channel], time.Now()
	maps.DeleteFunc(failing, func(_ postrider.DestinationID, at time.Time) bool { return now.Sub(at) > 2*lastRetry })
	if failing[d.ID] = now; sent {
		delete(failing, d.ID)
	}
	return len(failing)
}
