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

// The first pause between two tries is at most firstWait. The maximum doubles with each try, up to
// longestWait. The server's Retry-After is added to the pause.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
)

// repeat calls try until it succeeds, its error is permanent, or the number of
// tries is used up. It returns the result of the last call.
func (c *Client) repeat(ctx context.Context, r request, try func() error) error {
	lost := false // an earlier try got no response from the server itself
	for n := 1; ; n++ {
		err := try()
		switch {
		case err == nil:
			return nil
		case lost && r.method == http.MethodDelete && statusOf(err) == http.StatusNotFound:
			return nil // the try without a response had deleted the object
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

// safe reports whether repeating the request has no further effect.
func (r request) safe() bool { return r.method != http.MethodPost || r.keyed }

// passes reports whether the error may be temporary: the server was busy or did
// not respond.
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

// statusOf returns the status of an error response; 0: there was no response.
func statusOf(err error) int {
	if problem, ok := errors.AsType[*Error](err); ok {
		return problem.Status
	}
	return 0
}

// wait returns the pause after the n-th try, and whether the pause is within MaxWait. If it is not,
// the caller returns the error.
func (c *Client) wait(n int, err error) (time.Duration, bool) {
	most := min(firstWait<<min(n-1, 10), longestWait)
	wait := most/2 + mathrand.N(most/2) // the jitter spreads the retries of clients that failed together
	if problem, ok := errors.AsType[*Error](err); ok && problem.RetryAfter > 0 {
		wait += problem.RetryAfter
	}
	return wait, wait <= c.opts.MaxWait
}

// pause waits. It returns false if the context was cancelled in the meantime.
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

// newKey returns a random idempotency key.
func newKey() string { return "auto-" + rand.Text() }

// retryAfter parses a Retry-After header, in seconds or as a date. It returns 0 if the header is
// invalid.
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
