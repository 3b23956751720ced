package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
	"github.com/postrider/postrider/internal/shape"
)

// policyVersion is the version of the documents that [EncodePolicy] writes. It
// changes when a name or a unit changes its meaning; then [DecodePolicy] must
// read the older version too. A new field does not change it: the field is
// omitzero, and its zero value is how endpoints were treated before it.
const policyVersion = 1

// policyDocument is a policy as the stores keep it. Its names are independent
// of those of [postrider.Policy], so that a field can be renamed in Go, in both, without
// resetting the setting of every endpoint; testdata/policy.json pins them. All
// times are whole milliseconds. Package shape copies the fields.
type policyDocument struct {
	Version         int                    `json:"version"`
	Retry           retryDocument          `json:"retry"`
	TimeoutMS       int64                  `json:"timeout_ms"`
	AdaptiveTimeout bool                   `json:"adaptive_timeout"`
	ClientErrors    postrider.ClientErrors `json:"client_errors"`
	Concurrency     int                    `json:"concurrency"`
	ExpiryMS        int64                  `json:"expiry_ms"`
	Signatures      []signatureDocument    `json:"signatures,omitempty"`
	Payload         postrider.Payload      `json:"payload"`
	Circuit         circuitDocument        `json:"circuit"`
	Rate            rateDocument           `json:"rate,omitzero"`
	Order           postrider.Order        `json:"order"`
	OnDead          postrider.OnDead       `json:"on_dead"`
	Headers         []headerDocument       `json:"headers,omitempty"`
	Auth            authDocument           `json:"auth"`
	TLS             tlsDocument            `json:"tls,omitzero"`
	MaxRedirects    int                    `json:"max_redirects"`
	Compression     postrider.Compression  `json:"compression"`
	SendTraceParent bool                   `json:"send_traceparent,omitzero"`
}

type retryDocument struct {
	Preset      string           `json:"preset,omitempty"`
	DelaysMS    []int64          `json:"delays_ms,omitzero"` // an empty list is not the same as none
	BaseMS      int64            `json:"base_ms,omitzero"`
	Factor      float64          `json:"factor,omitzero"`
	CapMS       int64            `json:"cap_ms,omitzero"`
	MaxAttempts int              `json:"max_attempts,omitzero"`
	Jitter      postrider.Jitter `json:"jitter,omitempty"`
}

type signatureDocument struct {
	Scheme postrider.Scheme `json:"scheme"`
	Header string           `json:"header,omitempty"`
	Prefix string           `json:"prefix,omitempty"`
}

type circuitDocument struct {
	Failures      int   `json:"failures"`
	Percent       int   `json:"percent"`
	Attempts      int   `json:"attempts"`
	WindowMS      int64 `json:"window_ms"`
	CooldownMS    int64 `json:"cooldown_ms"`
	MaxCooldownMS int64 `json:"max_cooldown_ms"`
}

type rateDocument struct {
	Attempts int   `json:"attempts"`
	PerMS    int64 `json:"per_ms"`
	Burst    int   `json:"burst,omitzero"`
}

type headerDocument struct {
	Name   string `json:"name"`
	Value  string `json:"value,omitempty"`
	Secret bool   `json:"secret,omitzero"`
}

type authDocument struct {
	Kind     postrider.AuthKind `json:"type"`
	User     string             `json:"username,omitempty"`
	Header   string             `json:"header,omitempty"`
	TokenURL string             `json:"token_url,omitempty"`
	ClientID string             `json:"client_id,omitempty"`
	Scopes   []string           `json:"scopes,omitempty"`
	Audience string             `json:"audience,omitempty"`
}

type tlsDocument struct {
	Certificate string `json:"certificate,omitempty"`
	Authorities string `json:"authorities,omitempty"`
}

// EncodePolicy returns the document that stores keep of a policy.
func EncodePolicy(p postrider.Policy) ([]byte, error) {
	d := policyDocument{Version: policyVersion}
	if err := shape.Copy(&d, p); err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	document, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return document, nil
}

// DecodePolicy reads the document that [EncodePolicy] wrote for the endpoint.
// A document that it does not understand whole is an error that names the
// endpoint and the fields: a version that this program does not know, a name
// that it does not know or that is missing, a value of another type, or the
// name of a choice that it does not have. No such field gets a default, since
// the endpoint would be treated in a way that its owner never chose.
func DecodePolicy(endpoint postrider.EndpointID, document []byte) (postrider.Policy, error) {
	var d policyDocument
	err := jsonx.DecodeStored(document, &d)
	switch {
	case d.Version > policyVersion: // its other names may be newer, too
		err = fmt.Errorf("version %d is newer than this program, which reads version %d", d.Version, policyVersion)
	case err == nil && d.Version != policyVersion:
		err = fmt.Errorf("version %d is unknown", d.Version)
	case err == nil:
		err = d.checkChoices()
	}
	if err != nil {
		// As text, since an InvalidError would be taken for a fault of a request.
		reason := strings.ReplaceAll(err.Error(), "\n", "; ")
		return postrider.Policy{}, fmt.Errorf("decode policy of endpoint %s: %s", endpoint, reason)
	}
	return d.policy(), nil
}

// SetPolicy sets the policy of an endpoint that was read to what the document
// says. If [DecodePolicy] refuses the document, the endpoint has a PolicyError,
// and a policy that serves only to store new deliveries. The stores return such
// an endpoint like any other: one damaged row must not keep a node from reading
// the rows of all other endpoints.
func SetPolicy(e *postrider.Endpoint, document []byte) {
	policy, err := DecodePolicy(e.ID, document)
	if err != nil {
		e.Policy, e.PolicyError = salvagePolicy(document), err.Error()
		return
	}
	e.Policy, e.PolicyError = policy, ""
}

// PolicyDocument returns the document of an endpoint's policy for
// [Directory.PutEndpoint]. It is nil if the endpoint has a PolicyError: then the
// stored document must stay as it is, since a newer node may be able to read it.
func PolicyDocument(e postrider.Endpoint) ([]byte, error) {
	if e.PolicyError != "" {
		return nil, nil
	}
	return EncodePolicy(e.Policy)
}

// UnreadablePolicies returns a function that reports whether a document cannot
// be read. It decodes each text once: most of the endpoints in a list have the
// same one.
func UnreadablePolicies() func(document string) bool {
	known := map[string]bool{"": false} // "" stands for an endpoint that does not exist
	return func(document string) bool {
		unreadable, seen := known[document]
		if !seen {
			_, err := DecodePolicy(postrider.EndpointID{}, []byte(document))
			unreadable = err != nil
			known[document] = unreadable
		}
		return unreadable
	}
}

// salvagePolicy returns the four fields of an unreadable policy that new
// deliveries are stored with. A field that can be read has its stored value. A
// field that cannot has the value that does no lasting harm: no Order, which
// publishing treats as by_key, because deliveries that were sent out of order
// cannot be put in order again; OnDead pause, for the same reason; the longest
// Expiry; and no delay before the first attempt, since none is made now. Of
// another version nothing is read: its names may have other meanings.
func salvagePolicy(document []byte) postrider.Policy {
	var d policyDocument
	salvaged := postrider.Policy{OnDead: postrider.PauseOnDead, Expiry: postrider.MaxExpiry}
	_ = json.Unmarshal(document, &d) // it goes on after a field of another type, and reads nothing of a text that is not JSON
	if d.Version != policyVersion {
		return salvaged
	}
	read := d.policy()
	if oneOf("order", read.Order, postrider.OrderNone, postrider.OrderByKey) == nil {
		salvaged.Order = read.Order
	}
	if oneOf("on_dead", read.OnDead, postrider.SkipDead, postrider.PauseOnDead) == nil {
		salvaged.OnDead = read.OnDead
	}
	if read.Expiry > 0 {
		salvaged.Expiry = min(read.Expiry, postrider.MaxExpiry)
	}
	if read.Retry.Check() == nil {
		salvaged.Retry = read.Retry
	}
	return salvaged
}

// policy returns the policy that the document says.
func (d policyDocument) policy() postrider.Policy {
	var p postrider.Policy
	_ = shape.Copy(&p, d) // whole milliseconds
	return p
}

// checkChoices returns the names that the program does not know where a field
// is one of several choices. Bounds of numbers are not checked: a bound that
// becomes narrower must not make what is stored unreadable.
func (d policyDocument) checkChoices() error {
	faults := []error{
		oneOf("client_errors", d.ClientErrors, postrider.RetryClientErrors, postrider.DeadLetterClientErrors),
		oneOf("payload", d.Payload, postrider.PayloadEnvelope, postrider.PayloadRaw),
		oneOf("order", d.Order, postrider.OrderNone, postrider.OrderByKey),
		oneOf("on_dead", d.OnDead, postrider.SkipDead, postrider.PauseOnDead),
		oneOf("compression", d.Compression, postrider.CompressionNone, postrider.CompressionGzip),
		oneOf("auth.type", d.Auth.Kind, postrider.AuthKinds...),
	}
	if d.Retry.Preset != "" {
		faults = append(faults, oneOf("retry.preset", d.Retry.Preset, postrider.Presets()...))
	}
	for i, s := range d.Signatures {
		faults = append(faults, oneOf(fmt.Sprintf("signatures[%d].scheme", i), s.Scheme, postrider.Schemes...))
	}
	return errors.Join(faults...)
}

func oneOf[T ~string](field string, value T, choices ...T) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return fmt.Errorf("%s %q is none of the names that this program knows", field, value)
}
