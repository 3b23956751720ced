package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// The limits of the header lines that an endpoint adds. Policies are checked when they are stored;
// this is the last check before the request is written.
const (
	maxOwnLines = 36       // the endpoint's own headers, one for authentication, and the presets
	maxOwnBytes = 20 << 10 // 8 KiB of headers, and a user and a password of 4 KiB each in base64
)

// ownLines collects the header lines that an endpoint adds.
type ownLines struct {
	text  []byte
	count int
	// Names of these lines and of the signer's fields, in lower case; true: the value may be
	// recorded.
	names map[string]bool
}

// addOwnLines sets the header lines that the policy adds to the target's requests. If requests are
// signed, the target must have its signer already.
func (t *target) addOwnLines(e *postrider.Endpoint, c postrider.Credentials) error {
	own := ownLines{names: map[string]bool{}}
	// The signer writes its fields into every header later. Their names are reserved first, so that
	// an endpoint's header cannot repeat one of them: of two equal fields, some receivers read the
	// first and others the last.
	if err := own.reserveSigned(t.signer); err != nil {
		return failure(postrider.FailureUnsigned, err)
	}
	if t.sampled != nil {
		for _, name := range []string{postrider.TraceParentHeader, postrider.TraceStateHeader} {
			if err := own.reserve(name, true); err != nil {
				return failure(postrider.FailureHeaders, err)
			}
		}
	}
	for _, h := range e.Policy.Headers {
		value := h.Value
		if h.Secret {
			var ok bool
			if value, ok = c.Headers[h.Name]; !ok {
				return failure(postrider.FailureSecrets, fmt.Errorf("header %s has no value among the credentials", h.Name))
			}
		}
		if err := postrider.CheckHeaderName("header", h.Name); err != nil {
			return failure(postrider.FailureHeaders, err)
		}
		if err := own.add(h.Name, value, !h.Secret); err != nil {
			return failure(postrider.FailureHeaders, err)
		}
	}
	if err := own.authenticate(e.Policy.Auth, c.Auth); err != nil {
		return failure(postrider.FailureHeaders, err)
	}
	if err := own.addPresets(e); err != nil {
		return failure(postrider.FailureHeaders, err)
	}
	t.ownLines, t.shown = own.text, own.names
	return nil
}

// reserveSigned reserves the names of the fields that the signer writes. To learn them, it signs a
// message. A nil signer writes none.
func (o *ownLines) reserveSigned(signer *signature.Signer) error {
	if signer == nil {
		return nil
	}
	head, err := signer.AppendHeader(nil, signature.Message{
		ID: "evt", Delivery: "dlv", Type: "type", Occurred: time.Unix(0, 0), Timestamp: time.Unix(0, 0),
	})
	for line := range bytes.Lines(head) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		lower := strings.ToLower(string(name))
		o.names[lower] = recordedHeaders[lower]
	}
	return err
}

// authenticate adds the line that authenticates us to the receiver. For OAuth2 it only reserves the
// name, because the token is fetched before each request.
func (o *ownLines) authenticate(a postrider.Auth, secret string) error {
	switch a.Kind {
	case postrider.AuthNone, "":
		return nil
	case postrider.AuthOAuth2:
		return o.reserve("Authorization", false)
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

// presets are the header fields that libraries of a scheme want besides those that the signer writes.
// Their values are the same in every request of an endpoint.
var presets = map[postrider.Scheme]func(*postrider.Endpoint) [][2]string{
	postrider.SchemeGitHub:     githubPresets,
	postrider.SchemeGitHubSHA1: githubPresets,
	postrider.SchemeShopify: func(e *postrider.Endpoint) [][2]string {
		return [][2]string{{"X-Shopify-Shop-Domain", e.Account.String()}, {"X-Shopify-API-Version", "unstable"}}
	},
}

func githubPresets(e *postrider.Endpoint) [][2]string {
	return [][2]string{{"X-GitHub-Hook-ID", e.ID.String()}}
}

// addPresets appends the presets of the endpoint's schemes. A header of the endpoint replaces the
// preset of the same name, so addPresets must be called last.
func (o *ownLines) addPresets(e *postrider.Endpoint) error {
	for _, s := range e.Policy.Signatures {
		fields, ok := presets[s.Scheme]
		if !ok {
			continue
		}
		for _, f := range fields(e) {
			if _, taken := o.names[strings.ToLower(f[0])]; taken {
				continue
			}
			if err := o.write(f[0], f[1], true); err != nil {
				return err
			}
		}
	}
	return nil
}

// add checks the value and appends a line. Its errors do not contain the value.
func (o *ownLines) add(name, value string, shown bool) error {
	if err := postrider.CheckHeaderValue("header "+name, value); err != nil {
		return err
	}
	return o.write(name, value, shown)
}

// write appends a line. The name must be a token (RFC 9110), and the value must be checked already.
func (o *ownLines) write(name, value string, shown bool) error {
	if err := o.reserve(name, shown); err != nil {
		return err
	}
	o.text = append(o.text, name+": "+value+"\r\n"...)
	if o.count++; o.count > maxOwnLines || len(o.text) > maxOwnBytes {
		return errors.New("headers are too many or too large")
	}
	return nil
}

// reserve records a name, and refuses one that is taken: of two equal fields, some receivers
// believe the first and others the last.
func (o *ownLines) reserve(name string, shown bool) error {
	lower := strings.ToLower(name)
	if _, ok := o.names[lower]; ok {
		return fmt.Errorf("header %s is there twice", name)
	}
	o.names[lower] = shown
	return nil
}

// recordedHeaders are this program's header fields that may be recorded with an attempt, where
// people can read them. It lists what is allowed and not what is secret. So the signature of a
// scheme that is added later is not recorded until a developer decides otherwise.
var recordedHeaders = map[string]bool{
	"host": true, "user-agent": true, "content-type": true, "content-encoding": true, "content-length": true,
	postrider.TraceParentHeader: true, postrider.TraceStateHeader: true,
	"webhook-id": true, "webhook-timestamp": true, "webhook-sequence": true, "webhook-hops": true,
	"svix-id": true, "svix-timestamp": true, "x-slack-request-timestamp": true,
	"x-webhook-id": true, "x-webhook-event": true, "x-webhook-timestamp": true,
	"x-idempotency-key": true, "x-event-id": true, "x-github-event": true, "x-github-delivery": true,
	"x-shopify-topic": true, "x-shopify-webhook-id": true, "x-shopify-event-id": true, "x-shopify-triggered-at": true,
}

// redact returns the header as it was sent, with secret values masked. It masks every field that is
// neither in recordedHeaders nor marked as harmless by the endpoint's owner, and the query, which
// may contain a credential. own are the names of [target].shown.
func redact(header []byte, own map[string]bool) []byte {
	b := make([]byte, 0, len(header))
	for line := range bytes.Lines(header) {
		if len(b) == 0 { // the request line
			if query := bytes.IndexByte(line, '?'); query >= 0 {
				b = append(b, line[:query]...)
				line = []byte("?... HTTP/1.1\r\n")
			}
			b = append(b, line...)
			continue
		}
		name, _, isField := bytes.Cut(line, []byte(":"))
		lower := strings.ToLower(string(name))
		if isField && !recordedHeaders[lower] && !own[lower] {
			line = append(append([]byte(nil), name...), ": "+postrider.Masked+"\r\n"...)
		}
		b = append(b, line...)
	}
	return b
}

// credentialHeaders are the fields of responses whose values are credentials.
var credentialHeaders = map[string]bool{"set-cookie": true, "set-cookie2": true, "authorization": true, "cookie": true}

// redactResponse returns the header of a response with credentials masked, including credentials of
// the request that the receiver sent back. It leaves out the continuation lines of such a value.
func redactResponse(header []byte, own map[string]bool) []byte {
	b, masking := make([]byte, 0, len(header)), false
	for line := range bytes.Lines(header) {
		if masking && (line[0] == ' ' || line[0] == '\t') {
			continue
		}
		name, _, isField := bytes.Cut(line, []byte(":"))
		lower := strings.ToLower(strings.TrimSpace(string(name)))
		shown, ours := own[lower]
		if masking = isField && len(b) > 0 && (credentialHeaders[lower] || ours && !shown); masking {
			line = append(append([]byte(nil), name...), ": "+postrider.Masked+"\r\n"...)
		}
		b = append(b, line...)
	}
	return b
}

// acceptedHeaders are the fields that are recorded of an ordinary accepted response. They say which
// program responded, and how. Fields that differ from response to response, such as Date,
// Content-Length or a request id, are not in the list. So an endpoint's heads are equal, and a
// repeated head needs nearly no space.
var acceptedHeaders = map[string]bool{
	"allow": true, "cache-control": true, "connection": true, "content-encoding": true, "content-type": true, "deprecation": true,
	"server": true, "sunset": true, "transfer-encoding": true, "vary": true, "via": true, "warning": true, "x-powered-by": true,
}

// longestAccepted is the length of the longest name in acceptedHeaders.
const longestAccepted = len("transfer-encoding")

// selectHead returns the status line of an accepted response, and its acceptedHeaders as far as
// they fit into [store.MaxAcceptedHead] bytes. own means the same as in redactResponse. selectHead
// is called for nearly every attempt, so it allocates only the result.
func selectHead(header []byte, own map[string]bool) []byte {
	var head [store.MaxAcceptedHead]byte
	var name [longestAccepted]byte
	b := head[:0]
	for line := range bytes.Lines(header) {
		colon := bytes.IndexByte(line, ':')
		if len(b) > 0 {
			if colon <= 0 || colon > longestAccepted {
				continue
			}
			for i, c := range line[:colon] {
				if name[i] = c; 'A' <= c && c <= 'Z' {
					name[i] += 'a' - 'A'
				}
			}
			shown, ours := own[string(name[:colon])]
			if !acceptedHeaders[string(name[:colon])] || ours && !shown {
				continue
			}
		}
		if len(b)+len(line)+len("\r\n") <= len(head) {
			b = append(b, line...)
		} else if len(b) == 0 {
			return nil
		}
	}
	return bytes.Clone(append(b, "\r\n"...))
}
