package postrider_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		code       int
		retryAfter time.Duration
		want       postrider.Outcome
	}{
		{"200 is accepted", 200, 0, postrider.OutcomeAccepted},
		{"299 is accepted", 299, 0, postrider.OutcomeAccepted},
		{"a 2xx with Retry-After is accepted", 202, time.Second, postrider.OutcomeAccepted},
		{"199 is rejected", 199, 0, postrider.OutcomeRejected},
		{"a redirect is rejected", 301, 0, postrider.OutcomeRejected},
		{"a client error is rejected", 404, 0, postrider.OutcomeRejected},
		{"410 is gone", 410, 0, postrider.OutcomeGone},
		{"410 with Retry-After is gone", 410, time.Second, postrider.OutcomeGone},
		{"429 is throttled", 429, 0, postrider.OutcomeThrottled},
		{"502 is throttled", 502, 0, postrider.OutcomeThrottled},
		{"503 is throttled", 503, 0, postrider.OutcomeThrottled},
		{"504 is throttled", 504, 0, postrider.OutcomeThrottled},
		{"500 is rejected", 500, 0, postrider.OutcomeRejected},
		{"501 is rejected", 501, 0, postrider.OutcomeRejected},
		{"505 is rejected", 505, 0, postrider.OutcomeRejected},
		{"503 with Retry-After is throttled", 503, time.Second, postrider.OutcomeThrottled},
		{"500 with Retry-After is throttled", 500, time.Second, postrider.OutcomeThrottled},
		{"599 with Retry-After is throttled", 599, time.Second, postrider.OutcomeThrottled},
		{"408 with Retry-After is rejected", 408, time.Second, postrider.OutcomeRejected},
		{"a code nobody knows is rejected", 999, 0, postrider.OutcomeRejected},
	} {
		if got := postrider.Classify(tt.code, tt.retryAfter); got != tt.want {
			t.Errorf("%s: Classify(%d, %v) = %s", tt.name, tt.code, tt.retryAfter, got)
		}
	}
}
