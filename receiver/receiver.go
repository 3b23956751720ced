// Package receiver receives webhooks: it verifies each request, and processes
// each event once.
//
//	store := receiver.NewMemory(receiver.MemoryOptions{}) // or NewSQL, which outlives the process
//	hooks, err := receiver.New(verifiers, store, func(ctx context.Context, e receiver.Event) error {
//		return fulfil(ctx, e.Body) // nil: processed, the sender gets a 2xx
//	}, receiver.Options{})
//	mux.Handle("/webhooks", hooks)
//
// Senders repeat an event until they are answered with 2xx, so a receiver sees
// some twice. A [Receiver] claims the event's id in its [Store], calls the
// [Handler], and records the id as processed. What holds:
//
//   - The handler sees no byte that was not verified.
//   - A 2xx means that the handler returned nil for this event, now or earlier.
//   - An event whose processing ended in an error, a panic or a crash is not
//     recorded: the sender's next attempt is processed, after a crash once the
//     claim's lease has ended.
//   - Of requests for one event at one time a single one is processed. The
//     others are answered with 409 at once, and nothing is lost: they are
//     repeated.
//   - A handler that heeds its context never runs twice at a time for an event.
//
// A crash between the handler's success and the record makes the event be
// processed again. Where that must not be, commit the record with what the
// handler writes: [SQL.RecordTx]. Where processing takes longer than senders
// wait, which is 15 to 30 seconds, let the handler put the event into a durable
// queue and return: from then on it is the queue that must not lose it.
// [Receiver.ServeHTTP] lists every answer.
package receiver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/postrider/postrider/signature"
)

// Handler processes an event. It returns nil once the event may be forgotten:
// what it did is durable, or the event is in a durable queue. With an error the
// event counts as not processed; one that a repetition would not mend is marked
// by [Permanent].
//
// Its context ends with the lease of the event's claim, and not when the sender
// hangs up: the event is processed to its end, and the sender's next attempt gets the result.
// It may be called from any goroutine.
type Handler func(ctx context.Context, e Event) error

// Permanent marks an error that the same event would run into again: the answer
// is 422 instead of 500. The event is not recorded as processed. Senders that
// tell the two apart set it aside at once, for a person to look at; others, as
// Postrider unless its endpoint says otherwise, repeat it first. A handler that
// wants an event neither processed nor repeated returns nil.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Options tunes a [Receiver]. The zero value is ready to use.
type Options struct {
	MaxBody int64         // bytes of a body, unpacked; default 1 MiB
	Lease   time.Duration // how long a handler may take, and a crashed one blocks its event; default 1 minute

	// Identify returns the id that the body of an event names it by, or "". It
	// is asked where the scheme signs no id: see [Event].ID. Default: none is
	// looked for.
	Identify func(e Event) string

	// AllowedOrigin answers the handshake of CloudEvents (OPTIONS) with that
	// WebHook-Allowed-Origin: a sender's name, or "*". Default: no handshake.
	AllowedOrigin string

	Log *slog.Logger // default: discard
}

func (o Options) withDefaults() Options {
	o.MaxBody = cmp.Or(o.MaxBody, 1<<20)
	o.Lease = cmp.Or(o.Lease, time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Identify == nil {
		o.Identify = func(Event) string { return "" }
	}
	return o
}

// Receiver is the http.Handler of a webhook's URL. It may be used from any
// goroutine.
type Receiver struct {
	verifiers []signature.Verifier
	store     Store
	handle    Handler
	opts      Options
}

// New returns a receiver of the events that one of the verifiers finds
// authentic; they are asked in order. What is accepted is as safe as the weakest
// of them. A verifier without a key that its scheme can use is
// [signature.ErrNoKey]; one that is impossible otherwise is ErrScheme or
// ErrFormat of that package.
//
// Senders that do not know of each other need a store each: their ids may be the
// same.
func New(verifiers []signature.Verifier, store Store, handle Handler, opts Options) (*Receiver, error) {
	if len(verifiers) == 0 {
		return nil, fmt.Errorf("receiver: no verifier: %w", signature.ErrNoKey)
	}
	for i, v := range verifiers {
		if err := checkVerifier(v); err != nil {
			return nil, fmt.Errorf("receiver: verifier %d: %w", i, err)
		}
	}
	return &Receiver{slices.Clone(verifiers), store, handle, opts.withDefaults()}, nil
}

// checkVerifier asks the verifier about a request without a signature. The
// verifier of a scheme that needs a symmetric secret looks for one only later.
func checkVerifier(v signature.Verifier) error {
	if err := v.Verify(http.Header{}, nil, time.Now()); !errors.Is(err, signature.ErrNoSignature) {
		return err
	}
	asymmetric := func(k signature.Key) bool { return !k.Secret.Public().IsZero() }
	if !signsID(v.Format.Scheme) && !slices.ContainsFunc(v.Keys, func(k signature.Key) bool { return !asymmetric(k) }) {
		return fmt.Errorf("%w: scheme %s needs a symmetric secret", signature.ErrNoKey, v.Format.Scheme)
	}
	return nil
}

// retryAfter is the pause that a sender is asked for, where it should come again
// soon. Postrider heeds it in a 503, where it pauses the endpoint.
const retryAfter = 5 * time.Second

// settleTimeout is how long the store may take to settle a claim.
const settleTimeout = 10 * time.Second

// ServeHTTP answers a request:
//
//   - 204: the event is processed, by this request or an earlier one.
//   - 200: it is a challenge that Postrider sends to a new endpoint, and it is
//     echoed; or a handshake, see [Options].AllowedOrigin.
//   - 400: the body could not be read or unpacked.
//   - 401: no verifier finds it authentic.
//   - 405: the method is not POST.
//   - 409, with Retry-After: another request for this event is being processed.
//   - 413: the body is larger than [Options].MaxBody, as sent or unpacked.
//   - 415: the body is encoded otherwise than by gzip. A signature is over the
//     body as it was before.
//   - 422: the handler returned an error that is [Permanent].
//   - 500: the handler returned another error.
//   - 503, with Retry-After: the store could not say whether the event is new.
//     The handler was not called.
//
// With anything but 2xx the event is not recorded as processed. A handler's panic
// gives the event up and is left to the server, which cuts the connection. When
// a handler succeeded and the store then does not record it, that is logged, and
// the answer is 204: the sender has no reason to come again.
//
// The time for reading the request is the server's to limit: set its ReadTimeout.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodOptions && rc.opts.AllowedOrigin != "":
		shakeHands(w, rc.opts.AllowedOrigin)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed)
		return
	}
	body, status := readBody(w, r, rc.opts.MaxBody)
	if status != 0 {
		rc.opts.Log.InfoContext(r.Context(), "webhook refused unread", "status", status)
		answer(w, status)
		return
	}
	scheme, err := rc.verify(r.Header, body)
	if err != nil {
		rc.opts.Log.InfoContext(r.Context(), "webhook not verified", "error", err)
		answer(w, http.StatusUnauthorized)
		return
	}
	event := newEvent(scheme, r.Header, body, rc.opts.Identify)
	if event.challenge != "" {
		echo(w, event.challenge)
		return
	}
	answer(w, rc.receive(r.Context(), event))
}

// verify returns the scheme by which the request is authentic, or why it is not
// by any.
func (rc *Receiver) verify(h http.Header, body []byte) (signature.Scheme, error) {
	var faults []error
	now := time.Now()
	for _, v := range rc.verifiers {
		err := v.Verify(h, body, now)
		if err == nil {
			return cmp.Or(v.Format.Scheme, signature.Standard), nil
		}
		faults = append(faults, err)
	}
	return "", errors.Join(faults...)
}

// receive returns the status to answer with. Of the connection's context only the
// values count: once claimed, an event is dealt with to the end.
func (rc *Receiver) receive(ctx context.Context, e Event) int {
	ctx = context.WithoutCancel(ctx)
	log := rc.opts.Log.With("event", e.ID)
	working, cancel := context.WithTimeoutCause(ctx, rc.opts.Lease, errLeaseEnded)
	defer cancel() // the lease began later than this, so that it outlives working
	claim, err := rc.store.Claim(working, e.key, rc.opts.Lease)
	switch {
	case errors.Is(err, ErrProcessed):
		return http.StatusNoContent
	case errors.Is(err, ErrProcessing):
		return http.StatusConflict
	case err != nil:
		log.ErrorContext(ctx, "webhook not claimed", "error", err)
		return http.StatusServiceUnavailable
	}
	e.claim = claim
	return rc.process(working, e, log)
}

// process calls the handler and settles the claim. A handler that panics has not
// returned an error, but its claim is given up all the same.
func (rc *Receiver) process(working context.Context, e Event, log *slog.Logger) int {
	err := errPanicked
	defer func() {
		settling, cancel := context.WithTimeout(context.WithoutCancel(working), settleTimeout)
		defer cancel()
		settle := rc.store.Record
		if err != nil {
			settle = rc.store.Release
		}
		if err := settle(settling, e.claim); err != nil {
			log.ErrorContext(settling, "webhook not settled", "error", err)
		}
	}()
	err = rc.handle(working, e)
	if err == nil {
		return http.StatusNoContent
	}
	log.WarnContext(working, "webhook not processed", "error", err)
	if _, permanent := errors.AsType[permanentError](err); permanent {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

var (
	errLeaseEnded = errors.New("receiver: the lease of the event's claim ended")
	errPanicked   = errors.New("receiver: the handler panicked")
)

// answer sends a status and, unless all is well, its words. They say nothing of
// the reason: the sender of a forged request does not learn how to make a better one.
func answer(w http.ResponseWriter, status int) {
	if status == http.StatusConflict || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	http.Error(w, http.StatusText(status), status)
}

func echo(w http.ResponseWriter, challenge string) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(content{Challenge: challenge}); err != nil {
		return // the connection is gone, and the sender asks again
	}
}

// shakeHands agrees to be sent events, as section 4 of CloudEvents' HTTP
// webhook specification has it.
func shakeHands(w http.ResponseWriter, origin string) {
	w.Header().Set("Allow", "OPTIONS, POST")
	w.Header().Set("WebHook-Allowed-Origin", origin)
	w.Header().Set("WebHook-Allowed-Rate", "*")
	w.WriteHeader(http.StatusOK)
}
