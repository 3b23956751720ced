// Package live shows attempts while they are made, and tells other pages when to reload. The
// streams of a server use a bounded part of its time, however many people watch.
package live

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Attempts hands settled attempts to streams.
type Attempts interface {
	// Subscribe returns a function that waits for attempts that the watch selects. The function
	// returns these attempts, and the number of lost attempts: the caller was slow, or another
	// node could not send them. After the end of ctx it returns an error.
	Subscribe(ctx context.Context, w observe.Watch) func() (items []observe.Attempted, lost int, err error)
}

const (
	// heartbeatEvery is the time between two heartbeats, which are comments on every stream. A
	// heartbeat keeps proxies from closing a quiet stream. It also detects that a browser is gone
	// or that a session has ended.
	heartbeatEvery = 15 * time.Second
	// streamWrite is the time limit of one write.
	streamWrite = 10 * time.Second
	// tickEvery is the shortest time between two ticks of a stream.
	tickEvery = 2 * time.Second
	// Deliveries must not wait for people who watch. So all streams of this server share two
	// rates. One is for ticks: a tick makes a browser reload a page (some 10 ms of a processor).
	// The other is for messages of the tail (some 50 µs). Each stream gets its turn: fifty
	// overviews reload every 5 s, a thousand tails every 4 s.
	ticksASecond = 10
	tailsASecond = 250
	// turnWithin is the longest wait of a stream for its turn. If there are more streams than the
	// rate serves in this time, setRates raises the rate.
	turnWithin = 30 * time.Second
	// These limit the streams of this server, of the portal sessions of one account, and of one
	// session. One account must not use up the streams of the others.
	maxStreams          = 2000
	maxStreamsOfAccount = 200
	maxStreamsOfSession = 8
)

// Streams counts the open streams, gives each its turns, and ends all of them.
type Streams struct {
	// From hands out the attempts. nil: there are no streams.
	From Attempts

	watched tails
	ended   chan struct{} // closed by end
	once    sync.Once

	ticks, tails *rate.Limiter // the turns of all streams

	mu        sync.Mutex
	open      int
	ofAccount map[postrider.AccountID]int // the zero account: of all who see every account
	ofSession map[postrider.SessionID]int
}

// New returns the live tail, and the streams that tell pages to reload. from: see [Streams.From].
func New(from Attempts) *Streams {
	return &Streams{
		From: from, watched: tails{of: map[tailKey]*tail{}},
		ended: make(chan struct{}), ticks: rate.NewLimiter(ticksASecond, 1), tails: rate.NewLimiter(tailsASecond, 1),
		ofAccount: map[postrider.AccountID]int{}, ofSession: map[postrider.SessionID]int{},
	}
}

// Feature returns three routes: the page of the live tail, the stream of its rows, which takes
// the filters of the page's URL, and the stream that tells other pages to reload.
func (s *Streams) Feature() page.Feature {
	return page.Feature{Templates: templates, Everyone: page.Routes{
		"GET /tail":      s.showTail,
		"GET /live/tail": s.sendTail,
		"GET /live":      s.sendTicks,
	}}
}

// End ends all open streams, and refuses new ones.
func (s *Streams) End() { s.once.Do(func() { close(s.ended) }) }

// begin counts a new stream of the caller. False: the server, the account or the
// session has too many streams.
func (s *Streams) begin(c postrider.Caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := !c.Account.IsZero() && s.ofAccount[c.Account] >= maxStreamsOfAccount
	if full || s.open >= maxStreams || s.ofSession[c.Session] >= maxStreamsOfSession {
		return false
	}
	s.open++
	s.ofAccount[c.Account]++
	s.ofSession[c.Session]++
	s.setRates()
	return true
}

// setRates sets the rates so that every open stream has its turn within turnWithin. The caller
// holds s.mu.
func (s *Streams) setRates() {
	least := rate.Limit(float64(s.open) / turnWithin.Seconds())
	s.ticks.SetLimit(max(ticksASecond, least))
	s.tails.SetLimit(max(tailsASecond, least))
}

// done uncounts a stream that begin counted.
func (s *Streams) done(c postrider.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.setRates()
	if s.ofAccount[c.Account]--; s.ofAccount[c.Account] == 0 {
		delete(s.ofAccount, c.Account)
	}
	if s.ofSession[c.Session]--; s.ofSession[c.Session] == 0 {
		delete(s.ofSession, c.Session)
	}
}

// sendTicks sends the event "changed" after attempts were settled, so that pages reload. The
// event has no data about the attempts.
func (s *Streams) sendTicks(v *page.Visit) error { return s.send(v, observe.Watch{}, (*stream).ticks) }

// watch returns the filters of the URL. If the account or endpoint does not exist, it returns an
// error.
func watch(v *page.Visit) (observe.Watch, error) {
	w := observe.Watch{
		EventType: postrider.Pattern(v.Query("event_type")), Status: postrider.Status(v.Query("status")),
		Outcome: postrider.Outcome(v.Query("outcome")),
	}
	if account := v.Query("account"); account != "" {
		found, err := v.API.Account(v.Context, account)
		if err != nil {
			return w, err
		}
		w.Account = found.ID
	}
	if v.Query("endpoint") == "" {
		return w, nil
	}
	var err error
	_, w.Endpoint, err = v.EndpointFilter()
	return w, err
}

// source subscribes a stream to the attempts that the watch selects. It returns the
// function that sends the messages about them until ctx ends.
type source func(s *stream, ctx context.Context, w observe.Watch) (feed func())

// send sends messages about the attempts that the watch selects. It ends when the browser is
// gone, the session has ended or the server shuts down. A person of one account gets only
// attempts of that account.
func (s *Streams) send(v *page.Visit, w observe.Watch, from source) error {
	caller := v.Caller
	if !caller.Account.IsZero() {
		w.Account = caller.Account
	}
	if !v.Can(postrider.ScopeWebhooksRead) {
		return page.ErrForbidden
	}
	if s.From == nil {
		return page.ErrNoPage
	}
	if !s.begin(caller) {
		return page.ErrTooManyStreams
	}
	defer s.done(caller)
	ctx, cancel := context.WithDeadline(v.Request.Context(), v.Session.ExpiresAt)
	defer cancel()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel() // before the wait
	one := &stream{Visit: v, of: s, messages: make(chan [][]byte)}
	feed := from(one, ctx, w)
	waiting.Go(func() {
		defer cancel() // a feed that ends by itself ends the stream
		feed()
	})
	one.begin()
	one.run(ctx)
	return nil
}

// stream is one open stream of events (Server-Sent Events).
type stream struct {
	*page.Visit

	of       *Streams
	messages chan [][]byte // parts of a message, from a feed to run; not buffered, so that a slow reader loses attempts
}

// begin sends the head of the response. It also removes the read deadline of the connection,
// since net/http would end the stream with it.
func (s *stream) begin() {
	header := s.Writer.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would keep what it gets
	_ = http.NewResponseController(s.Writer).SetReadDeadline(time.Time{})
	s.Writer.WriteHeader(http.StatusOK)
}

// changed is the message that says that an attempt was settled.
var changed = []byte("event: changed\ndata: {}\n\n")

// ticks is the source of streamTicks.
func (s *stream) ticks(ctx context.Context, w observe.Watch) (feed func()) {
	next := s.of.From.Subscribe(ctx, w)
	return func() {
		for {
			if _, _, err := next(); err != nil || s.of.ticks.Wait(ctx) != nil || s.loggedOut(ctx) {
				return
			}
			if !s.send(ctx, changed) || !sleep(ctx, tickEvery) {
				return
			}
		}
	}
}

// send hands a message to run, after run has written the message before. It returns false if ctx
// has ended.
func (s *stream) send(ctx context.Context, parts ...[]byte) bool {
	select {
	case <-ctx.Done():
		return false
	case s.messages <- parts:
		return true
	}
}

// loggedOut reports whether the session has ended, as far as this node knows. While the store is
// unreachable it returns false, because nobody can end a session then.
func (s *stream) loggedOut(ctx context.Context) bool {
	return errors.Is(s.FindSession(ctx), postrider.ErrNotFound)
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// run writes messages until somebody ends the stream.
func (s *stream) run(ctx context.Context) {
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	// The deadline of the last write may have passed. The end of the response needs a new
	// deadline; without it, the browser would see a cut stream.
	defer func() { _ = http.NewResponseController(s.Writer).SetWriteDeadline(time.Now().Add(streamWrite)) }()
	if !s.write([]byte("retry: 2000\n: postrider\n\n")) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.of.ended:
			return
		case message := <-s.messages:
			if !s.write(message...) {
				return
			}
		case <-heartbeat.C:
			message := []byte(":\n\n")
			switch err := s.FindSession(ctx); {
			case errors.Is(err, postrider.ErrNotFound):
				return
			case err != nil:
				// While the store is unreachable, no attempt is settled. The tick makes the page
				// reload, and the page then shows that it is out of date.
				message = changed
			}
			if !s.write(message) {
				return
			}
		}
	}
}

// written are buffers for messages that are being written.
var written = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write writes a message within streamWrite, and reports whether the browser took it.
func (s *stream) write(parts ...[]byte) bool {
	message := written.Get().(*bytes.Buffer) //nolint:errcheck,forcetypeassert // only New and this function put
	defer written.Put(message)
	message.Reset()
	for _, part := range parts {
		message.Write(part)
	}
	out := http.NewResponseController(s.Writer)
	_ = out.SetWriteDeadline(time.Now().Add(streamWrite)) // only writers of tests have none
	_, err := s.Writer.Write(message.Bytes())
	return err == nil && out.Flush() == nil
}
