package client

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// The first wait between two tries is up to firstWait; it doubles up to
// longestWait, unless the server asks for more.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
)

// repeat calls try until it succeeds, its failure is one that no repetition
// mends, or it was called often enough. It returns what the last call did.
func (c *Client) repeat(ctx context.Context, r request, try func() error) error {
	lost := false // a try before had no answer of the server's own
	for n := 1; ; n++ {
		err := try()
		switch {
		case err == nil:
			return nil
		case lost && r.method == http.MethodDelete && statusOf(err) == http.StatusNotFound:
			return nil // that one deleted it
		case n >= c.opts.Attempts || !r.safe() || !passes(ctx, err):
			return err
		}
		switch statusOf(err) {
		case 0, http.StatusBadGateway, http.StatusGatewayTimeout:
			lost = true
		}
		wait, ok := c.wait(n, err)
		if !ok || !pause(ctx, wait) {
			return err
		}
	}
}

// safe reports whether the request does the same when it comes twice.
func (r request) safe() bool { return r.method != http.MethodPost || r.keyed }

// passes reports whether the failure may be over with the next try: the server
// was busy or did not answer.
func passes(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.As(err, new(*finalError)) {
		return false
	}
	switch statusOf(err) {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// statusOf returns the status of an answer that was no success; 0: there was
// no answer.
func statusOf(err error) int {
	if answered, ok := errors.AsType[*Error](err); ok {
		return answered.Status
	}
	return 0
}

// wait returns how long to wait after the n-th try, and whether that is worth
// it: a server that wants to be left alone for longer is left to the caller.
func (c *Client) wait(n int, err error) (time.Duration, bool) {
	most := min(firstWait<<min(n-1, 10), longestWait)
	wait := most/2 + mathrand.N(most/2) // so that clients which failed together do not come back together
	if answered, ok := errors.AsType[*Error](err); ok && answered.RetryAfter > 0 {
		wait += answered.RetryAfter
	}
	return wait, wait <= c.opts.MaxWait
}

// pause waits, and reports whether the context lasted.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// newKey returns an idempotency key that nobody else has.
func newKey() string { return "auto-" + rand.Text() }

// retryAfter reads a Retry-After, in either of its forms. What it cannot be is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	seconds, err := strconv.ParseUint(value, 10, 32)
	if err != nil || seconds > math.MaxInt32 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
