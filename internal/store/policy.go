package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/filter/condition"
	"github.com/postrider/postrider/internal/jsonx"
	"github.com/postrider/postrider/internal/shape"
)

// policyVersion is the version of the documents that [EncodePolicy] writes. It must grow when a
// name or a unit changes its meaning; then [DecodePolicy] must read the older version too. A new
// field needs no new version: it is omitzero, and its zero value keeps the old behaviour.
const policyVersion = 1

// policyDocument is the stored form of a policy. Its names are independent of the names in
// [postrider.Policy], so a field can be renamed in Go, in both types, without resetting the
// setting of every endpoint. The file testdata/policy.json fixes the stored names. All times are
// whole milliseconds. Package shape copies the fields.
type policyDocument struct {
	Version         int                    `json:"version"`
	Filter          string                 `json:"filter,omitempty"` // a text, so that its bytes are kept
	Changed         []string               `json:"changed,omitempty"`
	Channels        []string               `json:"channels,omitempty"`
	Condition       string                 `json:"condition,omitempty"`
	ConditionFailed bool                   `json:"condition_failed,omitempty"` // [postrider.Endpoint]'s
	Retry           retryDocument          `json:"retry"`
	TimeoutMS       int64                  `json:"timeout_ms"`
	AdaptiveTimeout bool                   `json:"adaptive_timeout"`
	ClientErrors    postrider.ClientErrors `json:"client_errors"`
	Concurrency     int                    `json:"concurrency"`
	ExpiryMS        int64                  `json:"expiry_ms"`
	Signatures      []signatureDocument    `json:"signatures,omitempty"`
	Payload         postrider.Payload      `json:"payload"`
	IncludePrevious bool                   `json:"include_previous,omitzero"`
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
	DelaysMS    []int64          `json:"delays_ms,omitzero"` // nil and an empty list differ
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

// EncodePolicy returns the stored form of a policy.
func EncodePolicy(p postrider.Policy) ([]byte, error) { return encodePolicy(p, false) }

func encodePolicy(p postrider.Policy, conditionFailed bool) ([]byte, error) {
	d := policyDocument{Version: policyVersion, ConditionFailed: conditionFailed}
	if err := shape.Copy(&d, p); err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	document, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return document, nil
}

// DecodePolicy reads the document that [EncodePolicy] wrote for the endpoint. It returns an error
// that names the endpoint and the fields if it does not understand the whole document:
//
//   - the version is unknown to this program
//   - a name is unknown or missing
//   - a value has the wrong type
//   - a choice has an unknown name
//   - the filter, the condition or a path cannot be parsed
//
// No such field gets a default, because its owner never chose the default. If the endpoint is set aside
// because its condition failed, the error is errConditionFailed, and the policy is the stored one.
func DecodePolicy(endpoint postrider.EndpointID, document []byte) (postrider.Policy, error) {
	var d policyDocument
	err := jsonx.DecodeStored(document, &d)
	switch {
	case d.Version > policyVersion: // names of a newer version may be unknown too
		err = fmt.Errorf("version %d is newer than this program, which reads version %d", d.Version, policyVersion)
	case err == nil && d.Version != policyVersion:
		err = fmt.Errorf("version %d is unknown", d.Version)
	case err == nil:
		err = d.checkChoices()
	}
	if err != nil {
		// The error becomes text, because an InvalidError would be taken for a fault in the request.
		reason := strings.ReplaceAll(err.Error(), "\n", "; ")
		return postrider.Policy{}, fmt.Errorf("decode policy of endpoint %s: %s", endpoint, reason)
	}
	if d.ConditionFailed {
		return d.policy(), errConditionFailed
	}
	return d.policy(), nil
}

// errConditionFailed is the PolicyError of an endpoint with ConditionFailed.
var errConditionFailed = errors.New("condition: it could not be evaluated for 20 events in a row; set condition again")

// SetPolicy sets the policy of an endpoint from its stored document. If [DecodePolicy] refuses
// the document, the endpoint gets a PolicyError, and a policy that serves only to store new
// deliveries. Stores return such an endpoint like any other, so that one damaged row does not
// keep a node from reading all other endpoints.
func SetPolicy(e *postrider.Endpoint, document []byte) {
	policy, err := DecodePolicy(e.ID, document)
	if e.ConditionFailed = errors.Is(err, errConditionFailed); e.ConditionFailed {
		e.Policy, e.PolicyError = policy, err.Error()
		return
	}
	if err != nil {
		e.Policy, e.PolicyError = salvagePolicy(document), err.Error()
		return
	}
	e.Policy, e.PolicyError = policy, ""
}

// PolicyDocument returns the document of an endpoint's policy for [Directory.PutEndpoint]. It
// returns nil if the policy of the endpoint cannot be read. Then the stored document must stay as it is,
// because a newer node may be able to read it.
func PolicyDocument(e postrider.Endpoint) ([]byte, error) {
	if e.PolicyError != "" && !e.ConditionFailed {
		return nil, nil
	}
	return encodePolicy(e.Policy, e.ConditionFailed)
}

// UnreadablePolicies returns a function that reports whether a document cannot be read. It
// decodes each text once, because most endpoints of a list have the same text.
func UnreadablePolicies() func(document string) bool {
	known := map[string]bool{"": false} // an endpoint that does not exist has the text ""
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

// salvagePolicy returns the seven fields of an unreadable policy that are needed to store new
// deliveries. A field that can be read keeps its stored value. Any other field gets a value that
// does no lasting harm:
//
//   - Order is empty, which publishing treats as by_key: deliveries that were sent out of order
//     cannot be put in order again.
//   - OnDead is pause, for the same reason.
//   - Expiry is the longest.
//   - Retry has no delay before the first attempt; no attempt is made now anyway.
//   - Filter, Changed, Channels and Condition are empty: no event is left out for a reason that nobody can read.
//
// From a document of another version nothing is read, because its names may have other meanings.
func salvagePolicy(document []byte) postrider.Policy {
	var d policyDocument
	salvaged := postrider.Policy{OnDead: postrider.PauseOnDead, Expiry: postrider.MaxExpiry}
	// Unmarshal continues after a field of the wrong type, and reads nothing from a text that is not
	// JSON.
	_ = json.Unmarshal(document, &d)
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
	if _, err := filter.Parse([]byte(read.Filter)); err == nil {
		salvaged.Filter = read.Filter
	}
	if errors.Join(checkPaths(read.Changed)...) == nil {
		salvaged.Changed = read.Changed
	}
	salvaged.Channels = read.Channels
	if _, err := condition.Compile(read.Condition); err == nil {
		salvaged.Condition = read.Condition
	}
	if read.Retry.Check() == nil {
		salvaged.Retry = read.Retry
	}
	return salvaged
}

// policy returns the policy in the document.
func (d policyDocument) policy() postrider.Policy {
	var p postrider.Policy
	_ = shape.Copy(&p, d) // no error: all times are whole milliseconds
	return p
}

// checkChoices returns an error for each choice whose name this program does not know, and the faults
// of the filter, the condition and paths. It does not check the bounds of numbers: if a bound becomes narrower,
// stored policies must stay readable.
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
	if d.Filter != "" {
		_, err := filter.Parse([]byte(d.Filter))
		faults = append(faults, err)
	}
	if d.Condition != "" {
		_, err := condition.Compile(d.Condition)
		faults = append(faults, err)
	}
	faults = append(faults, checkPaths(d.Changed)...)
	for i, s := range d.Signatures {
		faults = append(faults, oneOf(fmt.Sprintf("signatures[%d].scheme", i), s.Scheme, postrider.Schemes...))
	}
	return errors.Join(faults...)
}

func checkPaths(paths []string) (faults []error) {
	for i, path := range paths {
		if _, err := postrider.ParsePath(fmt.Sprintf("changed[%d]", i), path); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

func oneOf[T ~string](field string, value T, choices ...T) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return fmt.Errorf("%s %q is none of the names that this program knows", field, value)
}
