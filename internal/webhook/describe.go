package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// Describe returns the request of an attempt that begins at the given time, for the endpoint as it
// is now. It decrypts nothing: signatures and credentials are made from placeholders and masked. So
// it can also describe requests to a deleted endpoint, and to a URL that is now forbidden. It sends
// nothing.
func (s *Sender) Describe(ctx context.Context, c *postrider.Claimed, e postrider.Endpoint, at time.Time) (postrider.Request, error) {
	to := &store.EndpointSnapshot{Endpoint: e, Secrets: []postrider.Secret{{}}}
	return s.unsent.describe(ctx, draft{claimed: c, to: to, at: at}, maskSignatures)
}

// Sign returns the request of an attempt as a receiver would get it, with real signatures and
// masked credentials. It sends nothing.
func (s *Sender) Sign(ctx context.Context, c *postrider.Claimed, to *store.EndpointSnapshot) (postrider.Request, error) {
	return s.targets.describe(ctx, draft{claimed: c, to: to, at: s.now()}, showSignatures)
}

const (
	maskSignatures = false
	showSignatures = true
)

// describe builds the request of the draft in the same way as build, and masks its credentials.
func (ts *targets) describe(ctx context.Context, d draft, signatures bool) (r postrider.Request, err error) {
	u, err := url.Parse(d.to.Endpoint.TargetURL())
	if err != nil {
		return r, fmt.Errorf("describe request: %w", err)
	}
	t, err := ts.makeUnsent(ctx, d.to, d.at, u)
	if err != nil {
		return r, err
	}
	m, buffer := d.message(t, nil)
	size := len(m.Body)
	if t.gzip {
		compressed, err := appendGzip(slices.Clip(buffer), m.Body)
		if err != nil {
			return r, fmt.Errorf("compress: %w", err)
		}
		size = len(compressed) - len(buffer)
	}
	header, err := d.appendHeader(t, nil, m, size)
	if err != nil {
		return r, failure(postrider.FailureUnsigned, err)
	}
	r.Method, r.URL, r.Body = "POST", withoutQuery(u), m.Body
	if u.RawQuery != "" {
		r.URL += "?..."
	}
	if d.claimed.Event.Data == nil {
		r.Body = nil
	}
	if r.Signed, err = signedContents(d.to.Endpoint.Policy.Signatures, m); err != nil {
		return r, failure(postrider.FailureUnsigned, err)
	}
	shown := t.shown
	if signatures {
		shown = maps.Clone(shown)
		for _, c := range r.Signed {
			shown[strings.ToLower(c.Header)] = true
		}
	}
	r.Header = headerFields(redact(header, shown))
	if d.to.Endpoint.Policy.Auth.Kind == postrider.AuthOAuth2 { // no token is fetched for a description
		r.Header = append(r.Header, postrider.HeaderField{Name: "Authorization", Value: postrider.Masked})
	}
	return r, nil
}

// signedContents returns what each scheme signs of the message.
func signedContents(schemes []postrider.Signature, m signature.Message) (all []postrider.SignedContent, err error) {
	for _, s := range schemes {
		content, err := formatOf(s).Content(m)
		if err != nil {
			return nil, err
		}
		all = append(all, postrider.SignedContent{Scheme: s.Scheme, Header: content.Header, Prefix: content.Prefix})
	}
	return all, nil
}

// headerFields returns the fields of a header that this package has written.
func headerFields(header []byte) (fields []postrider.HeaderField) {
	for line := range bytes.Lines(header) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(string(line), "\r\n"), ": "); ok && !bytes.HasPrefix(line, []byte("POST ")) {
			fields = append(fields, postrider.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// placeholders is a vault that decrypts nothing. It returns texts in the form of secrets, so that
// requests are built in the same way as with real ones.
type placeholders struct{}

// placeholder is a secret that every scheme can use.
var placeholder = "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))

// DecryptSecret returns the placeholder.
func (placeholders) DecryptSecret(context.Context, postrider.Secret) (string, error) {
	return placeholder, nil
}

// DecryptCredentials returns a masked value for each credential.
func (placeholders) DecryptCredentials(_ context.Context, e postrider.Endpoint) (postrider.Credentials, error) {
	c := postrider.Credentials{Auth: postrider.Masked, Headers: map[string]string{}}
	for _, h := range e.Policy.Headers {
		c.Headers[h.Name] = postrider.Masked
	}
	return c, nil
}
