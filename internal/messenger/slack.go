package messenger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// slackTime is the time limit of one message to a webhook.
const slackTime = 10 * time.Second

// Slack sends messages to URLs that accept the format of Slack's incoming webhooks.
type Slack struct {
	// Guarded posts a body to a URL that a tenant set, and returns the status of the response. It
	// must refuse addresses that tenants must not reach.
	Guarded func(ctx context.Context, url string, body []byte) (status int, err error)
	// Operator does the same for the destinations of the operator, and may reach any address.
	Operator func(ctx context.Context, url string, body []byte) (status int, err error)
}

// Send implements [Channel]. It sends all messages at the same time, so a URL that does not respond
// delays no other.
func (s Slack) Send(ctx context.Context, messages []Message, done func(i int, err error)) {
	results := make([]error, len(messages))
	var sending sync.WaitGroup
	for i, message := range messages {
		sending.Go(func() {
			within, cancel := context.WithTimeout(ctx, slackTime)
			defer cancel()
			results[i] = s.send(within, message)
		})
	}
	sending.Wait()
	for i, err := range results {
		done(i, err)
	}
}

// send posts one message.
func (s Slack) send(ctx context.Context, message Message) error {
	body, err := json.Marshal(map[string]string{"text": message.Slack})
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	post := s.Guarded
	if message.To.Account.IsZero() {
		post = s.Operator
	}
	status, err := post(ctx, message.To.Address, body)
	switch {
	case err != nil:
		return slackError(err)
	// Slack sends these for a removed webhook
	case status == http.StatusGone || status == http.StatusNotFound:
		return fmt.Errorf("%w: HTTP %d", ErrRefused, status)
	case status < 200 || status > 299:
		return fmt.Errorf("%s: %d", postrider.FailureStatus, status)
	}
	return nil
}

// slackError returns the failure of a post. For a tenant's URL it has no detail of the platform's
// network.
func slackError(err error) error {
	failed, guarded := errors.AsType[*postrider.FailureError](err)
	refused, invalid := errors.AsType[*postrider.InvalidError](err)
	switch {
	case guarded:
		return errors.New(string(failed.Failure))
	case invalid:
		return &postrider.FailureError{Failure: postrider.FailureForbidden, Err: refused}
	case egress.TimedOut(err):
		return &postrider.FailureError{Failure: postrider.FailureTimeout, Err: err}
	}
	return &postrider.FailureError{Failure: egress.FailureOf(err, false), Err: err}
}

// escapeSlack escapes the characters that have a meaning in Slack's markup. So no text can mention
// people (<!channel>) or hide the target of a link.
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackText returns the message in Slack's markup.
func slackText(l Layout) string {
	var out strings.Builder
	fmt.Fprintf(&out, "*%s*", escapeSlack.Replace("["+l.Brand+"] "+l.Title))
	for _, p := range l.Paragraphs {
		out.WriteString("\n" + escapeSlack.Replace(p))
	}
	for _, line := range l.Lines {
		out.WriteString("\n• " + line.At + "  " + slackLink(Link{line.Text, line.URL}))
	}
	if l.More != "" {
		out.WriteString("\n" + escapeSlack.Replace(l.More))
	}
	if l.Button.URL != "" {
		out.WriteString("\n" + slackLink(l.Button))
	}
	return out.String()
}

// slackLink returns a link in Slack's markup; only its text if it has no URL.
func slackLink(l Link) string {
	text := escapeSlack.Replace(l.Text)
	if l.URL == "" {
		return text
	}
	return "<" + escapeSlack.Replace(l.URL) + "|" + strings.ReplaceAll(text, "|", "¦") + ">"
}
