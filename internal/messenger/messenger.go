// Package messenger tells people what they should know: it sends notices to destinations,
// by email and to Slack-compatible webhooks.
//
// A [Messenger] looks every few seconds for destinations that need a message. One node
// leases a destination, makes one message of all notices that the destination was not told,
// sends it, and moves the mark until which the destination is told. So a message needs no
// row of its own, and a thousand notices at once are one message. A destination gets at most
// one message in Options.Interval.
//
// Whatever happens, this holds:
//
//   - A destination that its reader did not confirm gets nothing but the message that asks
//     for it.
//   - Nothing waits for a message: not the delivery of events, not the API, and no message of
//     one channel for the other. Making a message and sending it have deadlines, and the lease
//     of a destination is longer than all of them together.
//   - A message that could not be made or sent is tried again, after one minute, then two, four and
//     so on up to an hour, with the notices that came meanwhile. An address that the mail
//     server refuses for good is not tried again until a person asks for it.
//   - Every notice that a destination wants is in a message, or counted in one: a crash after
//     a message was sent and before that is recorded repeats the message, under the same
//     Message-ID.
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
	// pollEvery is the time between two looks for destinations that need a message.
	pollEvery = 5 * time.Second
	// batchSize is how many destinations of a channel are leased at once. Their emails share
	// a connection.
	batchSize = 20
	// sendTime bounds the sending of a batch.
	sendTime = time.Minute
	// composeTime bounds the making of one message.
	composeTime = 5 * time.Second
	// settleTime bounds the record of a message.
	settleTime = 5 * time.Second
	// leaseTime is longer than it takes to make, send and record the messages of a batch.
	leaseTime = batchSize*composeTime + sendTime + batchSize*settleTime + 10*time.Second
	// The first and the longest wait after messages that could not be sent.
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

// Signer signs what links carry.
type Signer interface {
	// Sign returns a text for a URL that has the payload and proves that this
	// installation made it.
	Sign(ctx context.Context, payload []byte) (string, error)
}

// Channel sends messages.
type Channel interface {
	// Send sends the messages and calls done with the index and the result of each, as soon
	// as it is known. It returns soon after ctx has ended, and then done was called for all.
	// An error that matches [ErrRefused] says that trying again is of no use. The text of
	// an error begins with a [postrider.Failure], and is shown to people.
	Send(ctx context.Context, messages []Message, done func(i int, err error))
}

// ErrRefused says that the server refused an address for good.
var ErrRefused = errors.New(string(postrider.FailureAddress))

// Deps has the parts that a [Messenger] depends on. None may be nil.
type Deps struct {
	Store    Store
	Signer   Signer
	Channels map[postrider.Channel]Channel // a channel that is missing sends nothing
}

// Options tunes a messenger. The zero value is the default.
type Options struct {
	// Interval is the time between two messages to one destination. Default 10 minutes.
	Interval time.Duration
	// Gather is the age of the oldest notice from which a message is sent, so that the
	// notices of one incident are in one message. Default one minute.
	Gather time.Duration
	// Brand is the name of the platform, in subjects and texts. Default Postrider.
	Brand string
	// PublicURL is what links begin with. Empty: messages have no links.
	PublicURL string
	// PortalLoginURL is the page of the platform that opens the customer portal. Links to pages in
	// the messages of accounts lead there, because nobody can log in to the portal itself. The
	// query parameter portal_page has the path of the page. Empty: links lead to the portal.
	PortalLoginURL string
	// Templates are the layouts of emails. Default: those of the program.
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
	// failing maps each destination whose last message was not sent to the time of that failure.
	// Entries older than two hours are removed: this node would have tried again by then, so
	// another node sends there now, or the destination was deleted.
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

// Run sends messages until ctx ends. A message that is being sent then is given up.
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

// round sends the messages of a batch of destinations, and returns how many there were.
func (m *Messenger) round(ctx context.Context, name postrider.Channel, channel Channel) (int, error) {
	token := postrider.Token(rand.Int64N(1<<62) + 1) // not zero, which is no lease
	claimed, err := m.Store.ClaimDestinations(ctx, store.ClaimDestinations{
		Channel: name, Max: batchSize, Wait: m.opts.Gather, Token: token, Lease: leaseTime,
	})
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(claimed, func(a, b postrider.Destination) int {
		return slices.Compare(a.Account[:], b.Account[:]) // the operator's first, which have none
	})
	var messages []Message
	var errs []error
	for _, d := range claimed {
		message, err := m.compose(ctx, d)
		switch {
		case ctx.Err() != nil: // the server stops, and the lease ends by itself
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

// settle records what became of a message, and tells observers. err says why it was not made
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

// record ends the lease of a destination. It goes on when ctx is cancelled: otherwise the end of
// the server could cause a message that was sent already to be sent again.
func (m *Messenger) record(ctx context.Context, s store.SettleDestination) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := m.Store.SettleDestination(within, s)
	if errors.Is(err, postrider.ErrFenced) { // it was deleted meanwhile
		return nil
	}
	return err
}

// count notes whether the last message to the destination was sent, and returns to how many
// of its channel it was not.
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
