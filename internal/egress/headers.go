package egress

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/signature"
)

// The bounds of what an endpoint may add to a head. Policies are checked when
// they are stored; this is the last look before the wire.
const (
	maxOwn      = 33       // headers, and one that authenticates
	maxOwnBytes = 20 << 10 // 8 KiB of headers, and a user and a password of 4 KiB each in base64
)

// ownLines are header lines of an endpoint's own.
type ownLines struct {
	text  []byte
	lines int
	taken map[string]bool // names in lower case; true: it may be shown
}

// addOwn gives the route the lines that the policy adds to every head. The
// route has its signer, if it is to have one.
func (r *route) addOwn(e *postrider.Endpoint, c postrider.Credentials) error {
	own := ownLines{taken: map[string]bool{}}
	if err := own.takeSigned(r.signer); err != nil {
		return &stageError{postrider.FailureUnsigned, err}
	}
	for _, h := range e.Policy.Headers {
		value := h.Value
		if h.Secret {
			var ok bool
			if value, ok = c.Headers[h.Name]; !ok {
				return &stageError{postrider.FailureSecrets, fmt.Errorf("header %s has no value among the credentials", h.Name)}
			}
		}
		if err := postrider.CheckHeaderName("header", h.Name); err != nil {
			return &stageError{postrider.FailureHeaders, err}
		}
		if err := own.add(h.Name, value, !h.Secret); err != nil {
			return &stageError{postrider.FailureHeaders, err}
		}
	}
	if err := own.authenticate(e.Policy.Auth, c.Auth); err != nil {
		return &stageError{postrider.FailureHeaders, err}
	}
	r.own, r.shown = own.text, own.taken
	return nil
}

// takeSigned takes the names of what the signer writes, by letting it write. Nil
// writes nothing.
func (o *ownLines) takeSigned(signer *signature.Signer) error {
	if signer == nil {
		return nil
	}
	head, err := signer.AppendHeader(nil, signature.Message{
		ID: "evt", Delivery: "dlv", Type: "type", Occurred: time.Unix(0, 0), Timestamp: time.Unix(0, 0),
	})
	for line := range bytes.Lines(head) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		lower := strings.ToLower(string(name))
		o.taken[lower] = shownHeaders[lower]
	}
	return err
}

// authenticate adds what the receiver knows us by, unless that is a token that
// is fetched first.
func (o *ownLines) authenticate(a postrider.Auth, secret string) error {
	switch a.Kind {
	case postrider.AuthNone, "":
		return nil
	case postrider.AuthOAuth2:
		return o.take("Authorization", false)
	case postrider.AuthBasic:
		pair := base64.StdEncoding.EncodeToString([]byte(a.User + ":" + secret))
		return o.write("Authorization", "Basic "+pair, false)
	case postrider.AuthBearer:
		if secret == "" {
			return errors.New("the bearer token is empty")
		}
		if err := postrider.CheckHeaderValue("bearer token", secret); err != nil {
			return err
		}
		return o.write("Authorization", "Bearer "+secret, false)
	case postrider.AuthAPIKey:
		if secret == "" {
			return errors.New("the API key is empty")
		}
		if !strings.EqualFold(a.Header, "authorization") {
			if err := postrider.CheckHeaderName("API key header", a.Header); err != nil {
				return err
			}
		}
		return o.add(a.Header, secret, false)
	}
	return errors.New("unknown kind of authentication")
}

// add appends a line with a value that has to be checked. Errors do not repeat
// it.
func (o *ownLines) add(name, value string, shown bool) error {
	if err := postrider.CheckHeaderValue("header "+name, value); err != nil {
		return err
	}
	return o.write(name, value, shown)
}

// write appends a line. Its name is a token.
func (o *ownLines) write(name, value string, shown bool) error {
	if err := o.take(name, shown); err != nil {
		return err
	}
	o.text = append(o.text, name+": "+value+"\r\n"...)
	if o.lines++; o.lines > maxOwn || len(o.text) > maxOwnBytes {
		return errors.New("headers are too many or too large")
	}
	return nil
}

// take refuses a second header of the same name: receivers differ in which of
// the two they believe.
func (o *ownLines) take(name string, shown bool) error {
	lower := strings.ToLower(name)
	if _, taken := o.taken[lower]; taken {
		return fmt.Errorf("header %s is there twice", name)
	}
	o.taken[lower] = shown
	return nil
}

// shownHeaders are those of our own that may be kept with an attempt. Whatever
// is not known to be harmless is not: a signature scheme that is new is secret
// from its first day.
var shownHeaders = map[string]bool{
	"host": true, "user-agent": true, "content-type": true, "content-encoding": true, "content-length": true,
	"webhook-id": true, "webhook-timestamp": true, "webhook-sequence": true, "webhook-hops": true,
	"svix-id": true, "svix-timestamp": true, "x-slack-request-timestamp": true,
	"x-webhook-id": true, "x-webhook-event": true, "x-webhook-timestamp": true,
	"x-idempotency-key": true, "x-event-id": true, "x-github-event": true, "x-github-delivery": true,
	"x-shopify-topic": true, "x-shopify-webhook-id": true, "x-shopify-event-id": true, "x-shopify-triggered-at": true,
}

// redact returns the head as it was sent, less what must not be kept: headers
// that neither we nor the endpoint's owner call harmless, and the query, which
// may hold a credential.
func redact(head []byte, own map[string]bool) []byte {
	b := make([]byte, 0, len(head))
	for line := range bytes.Lines(head) {
		if len(b) == 0 {
			if query := bytes.IndexByte(line, '?'); query >= 0 {
				b = append(b, line[:query]...)
				line = []byte("?... HTTP/1.1\r\n")
			}
			b = append(b, line...)
			continue
		}
		name, _, isField := bytes.Cut(line, []byte(":"))
		lower := strings.ToLower(string(name))
		if !isField || shownHeaders[lower] || own[lower] {
			b = append(b, line...)
		}
	}
	return b
}
