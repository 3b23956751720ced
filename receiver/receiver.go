// Package receiver receives webhooks: it verifies each request, and processes each event once.
//
//	store := receiver.NewMemory(receiver.MemoryOptions{}) // or NewSQL, which outlives the process
//	hooks, err := receiver.New(verifiers, store, func(ctx context.Context, e receiver.Event) error {
//		return fulfil(ctx, e.Body) // nil: processed, the sender gets a 2xx
//	}, receiver.Options{})
//	mux.Handle("/webhooks", hooks)
//
// Senders repeat an event until they get a 2xx, so a receiver gets some events twice. A [Receiver]
// claims the event's id in its [Store], calls the [Handler], and records the id as processed. Its
// promises:
//
//   - The handler sees only bytes that were verified.
//   - A 2xx means that the handler returned nil for this event, now or earlier.
//   - An event whose processing ended in an error, a panic or a crash is not
//     recorded as processed. The sender's next attempt is processed; after a
//     crash only when the claim's lease has ended.
//   - Of several requests for one event at the same time, only one is processed.
//     The others get a 409 at once. Nothing is lost, because senders repeat
//     them.
//   - A handler that obeys its context never runs twice at the same time for one
//     event.
//
// If the process crashes between the handler's success and the record, the event is processed
// again. To prevent that, commit the record together with the handler's own writes: [SQL.RecordTx].
// If processing takes longer than senders wait, which is 15 to 30 seconds, the handler should put
// the event into a durable queue and return. Then the queue must not lose the event.
// [Receiver.ServeHTTP] lists all responses.
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

// Handler processes an event. It returns nil when the event need not be sent again: its effects are
// durable, or the event is in a durable queue. After an error the event counts as not processed.
// [Permanent] marks an error that a repetition would not change.
//
// The context ends with the lease of the event's claim. It does not end when the sender closes the
// connection: the event is processed completely, and the sender's next attempt gets the result. A
// Handler may be called from any goroutine.
type Handler func(ctx context.Context, e Event) error

// Permanent marks an error that would occur again for the same event. The response is 422 instead
// of 500. The event is not recorded as processed. Some senders give up such an event at once and
// show it to a person. Others repeat it first; Postrider does so unless the endpoint's policy says
// otherwise. If an event should be neither processed nor repeated, the handler must return nil.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Options tunes a [Receiver]. The zero value is ready to use.
type Options struct {
	MaxBody int64 // limit for the bytes of a body, before and after unpacking; default 1 MiB
	// Limit for the time of a handler; after a crash its event stays claimed for this time; default
	// 1 minute.
	Lease time.Duration

	// Identify returns the event's id from its body, or "". It is called if the scheme signs no id:
	// see [Event].ID. Default: no id is looked for.
	Identify func(e Event) string

	// AllowedOrigin is the WebHook-Allowed-Origin in the response to the handshake of CloudEvents
	// (OPTIONS): the name of a sender, or "*". Default: the handshake is refused.
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

// New returns a receiver of the requests that one of the verifiers accepts. The verifiers are tried
// in order, so the receiver is only as safe as the weakest of them. If a verifier has no key that
// its scheme can use, the error is [signature.ErrNoKey]. If it is invalid otherwise, the error is
// ErrScheme or ErrFormat of that package.
//
// Independent senders need separate stores, because their ids may be the same.
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

// checkVerifier tries the verifier on a request without a signature. That does not find a missing
// symmetric secret, so checkVerifier looks for one itself if the scheme needs it.
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

// retryAfter is the Retry-After of a response after which the sender should try again soon. For a
// 503, Postrider pauses the whole endpoint for that time.
const retryAfter = 5 * time.Second

// settleTimeout limits how long the store may take to record or release a claim.
const settleTimeout = 10 * time.Second

// ServeHTTP responds to a request:
//
//   - 204: the event is processed, by this request or an earlier one.
//   - 200: the request is the challenge that Postrider sends to a new endpoint,
//     and the response echoes it; or it is a handshake, see
//     [Options].AllowedOrigin.
//   - 400: the body could not be read or unpacked.
//   - 401: no verifier accepts the request.
//   - 405: the method is not POST.
//   - 409, with Retry-After: another request for this event is being processed.
//   - 413: the body is larger than [Options].MaxBody, before or after unpacking.
//   - 415: the content encoding of the body is not gzip. A signature signs the
//     body before compression.
//   - 422: the handler returned an error that is [Permanent].
//   - 500: the handler returned another error.
//   - 503, with Retry-After: the store could not say whether the event is new.
//     The handler was not called.
//
// Unless the response is 2xx, the event is not recorded as processed. If a handler panics, its
// claim is released and the panic goes on to the server, which closes the connection. If a handler
// succeeds but the store then cannot record it, the error is logged and the response is 204,
// because the sender has no reason to repeat the event.
//
// The server limits the time for reading the request: set its ReadTimeout.
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

// verify returns the scheme in which the request was verified, or the errors of all verifiers.
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

// receive returns the status of the response. It does not stop when the connection's context ends:
// once claimed, an event is processed completely.
func (rc *Receiver) receive(ctx context.Context, e Event) int {
	ctx = context.WithoutCancel(ctx)
	log := rc.opts.Log.With("event", e.ID)
	working, cancel := context.WithTimeoutCause(ctx, rc.opts.Lease, errLeaseEnded)
	defer cancel() // the lease begins after this line, so it ends after the context working
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

// process calls the handler and settles the claim: it records the claim, or releases it after an
// error or a panic.
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

// answer sends a status, with its standard text unless it is 204. The text does not say the reason,
// so that the sender of a forged request does not learn how to improve it.
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
		return // the connection is gone, and the sender will ask again
	}
}

// shakeHands accepts the handshake of the CloudEvents HTTP webhook specification, section 4.
func shakeHands(w http.ResponseWriter, origin string) {
	w.Header().Set("Allow", "OPTIONS, POST")
	w.Header().Set("WebHook-Allowed-Origin", origin)
	w.Header().Set("WebHook-Allowed-Rate", "*")
	w.WriteHeader(http.StatusOK)
}
