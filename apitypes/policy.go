package apitypes

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// Policy has the options of an endpoint: how its requests look and when they are sent. A request
// has some of the options, a response has all. It is embedded in [EndpointCreate], [EndpointUpdate]
// and [Endpoint], so an option is declared once for all three and for package client.
type Policy struct {
	Filter Optional[json.RawMessage] `json:"filter,omitzero" doc:"Pattern that says which events of event_types create deliveries, in the language of the event patterns of Amazon EventBridge over the fields data, type, subject, channels, metadata and internal: {\"data\": {\"total\": [{\"numeric\": [\">=\", 100]}]}}. docs/operate/filters.md has the operators. At most 16 KiB. Null, the default: all."`

	Changed   Optional[[]string] `json:"changed,omitzero" minItems:"1" maxItems:"10" example:"[\"$.status\"]" doc:"Paths in data, as in changed_paths of events: only events create deliveries in which one of them differs between previous and data, or is in changed_paths, or lies below or above one of these. Null, the default: all events."`
	Condition Optional[string]   `json:"condition,omitzero" doc:"Expression in CEL that says which of these events create deliveries, for what filter cannot say: data.items.exists(i, i.price > 100.0). The variables are data, type, subject, channels, metadata, internal and previous. docs/operate/filters.md has the language. If it cannot be evaluated for an event, the delivery becomes a dead letter, filter_failed. At most 4 KiB. Null, the default: all."`

	Channels Optional[[]string] `json:"channels,omitzero" minItems:"1" maxItems:"10" example:"[\"shop-7\"]" doc:"Only events that have one of these channels create deliveries. Null, the default: all events."`

	Retry        Optional[Retry]                  `json:"retry,omitzero" doc:"When failed deliveries are attempted again; default: the preset default."`
	TimeoutMS    Optional[int64]                  `json:"timeout_ms,omitzero" doc:"Timeout of a whole attempt, 1000 to 30000; default 10000."`
	ClientErrors Optional[postrider.ClientErrors] `json:"client_errors,omitzero" enum:"retry,dead_letter" doc:"What a 4xx response causes: another attempt, or a dead letter at once; default retry."`
	Concurrency  Optional[int]                    `json:"concurrency,omitzero" doc:"Largest number of attempts in flight, 1 to 1000; default 10. A server gives one endpoint at most a quarter of its own attempts."`
	ExpiryMS     Optional[int64]                  `json:"expiry_ms,omitzero" doc:"How long a delivery may be pending before it becomes a dead letter; default 7 days."`
	Signature    Optional[Signature]              `json:"signature,omitzero" doc:"How requests are signed; default: the scheme standard."`
	Payload      Optional[postrider.Payload]      `json:"payload,omitzero" enum:"envelope,raw" doc:"What the body of a request is: data in an envelope with id, type and timestamp, or data alone; default envelope."`

	IncludePrevious Optional[bool] `json:"include_previous,omitzero" doc:"Send previous of an event, if it has one, in the envelope beside data. It needs the payload envelope. Default false."`

	AdaptiveTimeout Optional[bool]             `json:"adaptive_timeout,omitzero" doc:"Shorten the timeout, down to 1000 ms, while the endpoint keeps timing out; default false."`
	Circuit         Optional[CircuitPolicy]    `json:"circuit,omitzero" doc:"When failures stop requests to the endpoint; default: the preset default."`
	Order           Optional[postrider.Order]  `json:"order,omitzero" enum:"none,by_key" doc:"by_key: events with the same ordering key are delivered one at a time, in sequence; default none. A change applies to events that are published after it."`
	OnDead          Optional[postrider.OnDead] `json:"on_dead,omitzero" enum:"skip,pause" doc:"With order by_key, what follows a dead letter. skip: the next event of its key is delivered. pause: the key waits until the dead letter is replayed or discarded. Default skip."`

	Headers      Optional[[]Header]              `json:"headers,omitzero" maxItems:"32" doc:"Extra headers of every request; default: none. A change replaces all of them."`
	MaxRedirects Optional[int]                   `json:"max_redirects,omitzero" minimum:"0" maximum:"3" doc:"How many redirects an attempt follows: 307 and 308, which repeat the request; 301, 302 and 303 are failures. Default 0: every redirect is a failure."`
	Compression  Optional[postrider.Compression] `json:"compression,omitzero" enum:"none,gzip" doc:"Compression of the body. Signatures are made before it. Default none."`

	SendTraceParent Optional[bool] `json:"send_traceparent,omitzero" doc:"Send the header traceparent of W3C Trace Context: the event's trace, and a span id of its own for each attempt; default false."`

	Rate Optional[Rate] `json:"rate,omitzero" doc:"How many attempts may start in a period, spread evenly except for a burst. Null, the default: unlimited."`
	Auth Optional[Auth] `json:"auth,omitzero" doc:"Credentials of every request. Null, the default: none, only signatures. A change without the secret keeps the secret of the same type for the same host."`
	TLS  Optional[TLS]  `json:"tls,omitzero" doc:"Client certificate and certificate authorities for this endpoint. Null, the default: none. A change of the certificate without the key keeps the key."`
}

// Retry is a retry policy in one of its three forms: the name of a preset, one
// delay for each attempt, or a formula.
type Retry struct {
	Preset      string           `json:"preset,omitempty" example:"seven-step"`
	DelaysMS    []int64          `json:"delays_ms,omitempty" nullable:"false" doc:"One delay for each attempt, with the first: [0, 30000] is two attempts."`
	BaseMS      int64            `json:"base_ms,omitempty"`
	Factor      float64          `json:"factor,omitempty"`
	CapMS       int64            `json:"cap_ms,omitempty"`
	MaxAttempts int              `json:"max_attempts,omitempty"`
	Jitter      postrider.Jitter `json:"jitter,omitempty" doc:"Random part of the delays: none, full, equal, or a percentage like 10%."`
}

// Signature says how an endpoint's requests are signed. Each request has the
// signatures of all schemes, so that a receiver can move from one to another.
type Signature struct {
	Schemes []Scheme `json:"schemes" nullable:"false" doc:"Signature schemes; each request has the signatures of all. An object gives a scheme another header."`
}

// Scheme is a signature scheme. If it uses the scheme's default header and prefix, its JSON is a
// string, the name. Otherwise its JSON is an object.
type Scheme struct {
	Scheme postrider.Scheme `json:"scheme"`
	Header string           `json:"header" example:"X-Acme-Signature" doc:"Name of the header, instead of the scheme's own."`
	Prefix string           `json:"prefix,omitempty" example:"sha256=" doc:"Text before the signature, instead of the scheme's own."`
}

// SetName sets s to the scheme with the name, with its default header and prefix. Decoders call it.
func (s *Scheme) SetName(name string) { *s = Scheme{Scheme: postrider.Scheme(name)} }

// MarshalJSON writes the string if the scheme has no header and no prefix, and otherwise the
// object.
func (s Scheme) MarshalJSON() ([]byte, error) {
	if s.Header == "" && s.Prefix == "" {
		return json.Marshal(s.Scheme)
	}
	type object Scheme
	return json.Marshal(object(s))
}

// UnmarshalJSON reads the string or the object.
func (s *Scheme) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*s = Scheme{}
		return json.Unmarshal(text, &s.Scheme)
	}
	type object Scheme
	return json.Unmarshal(text, (*object)(s))
}

// CircuitPolicy says when an endpoint's circuit opens: the name of a preset, or numbers. A response
// always has the numbers, and also the name if a preset has the same numbers.
type CircuitPolicy struct {
	Preset        string `json:"preset,omitempty" enum:"default,strict,windowed,never" doc:"Name of a set of numbers. If the request has numbers too, they must equal the numbers of the preset."`
	Failures      *int   `json:"failures,omitempty" minimum:"0" maximum:"1000" doc:"Number of consecutive failures that opens the circuit. Default 0: consecutive failures do not open it."`
	Percent       *int   `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"Percentage of failures in the window that opens the circuit. It needs attempts or window_ms. Default 0: the percentage does not open it."`
	Attempts      *int   `json:"attempts,omitempty" doc:"Size of the window in attempts, 10 to 60. Default 0: no such window."`
	WindowMS      *int64 `json:"window_ms,omitempty" doc:"Length of the window, 10000 to 86400000. It needs at least 20 attempts. Default 0: no such window."`
	CooldownMS    *int64 `json:"cooldown_ms,omitempty" doc:"Time from opening to the first probe, 1000 to 86400000; default 60000."`
	MaxCooldownMS *int64 `json:"max_cooldown_ms,omitempty" doc:"Longest cooldown, at most 86400000; default 1800000. Each failed probe doubles the cooldown."`
}

// Rate limits how many attempts may start in a period. It is a token bucket: a token is added every
// PerMS / Attempts, an attempt takes one token, and the bucket holds Burst tokens.
type Rate struct {
	Attempts int   `json:"attempts" doc:"Number of attempts in the period, 1 to 100000."`
	PerMS    int64 `json:"per_ms" doc:"Length of the period, 1000 to 3600000."`
	Burst    int   `json:"burst,omitempty" doc:"Number of attempts that may start at once after a pause, 1 to attempts; default: a tenth of attempts, at least 1."`
}

// Header is an additional header of an endpoint's requests. A sensitive value is write-only: a
// response has null instead of the value, and a change that leaves it out keeps the stored value.
type Header struct {
	Name      string           `json:"name" example:"X-Tenant"`
	Value     Optional[string] `json:"value,omitzero" doc:"In a response, null for a sensitive header. In a request, null or left out keeps the value of a sensitive header."`
	Sensitive bool             `json:"sensitive,omitempty" doc:"The value is stored encrypted and never shown; default false."`
}

// MarshalJSON writes sensitive even if it is false, so that a response has all fields.
func (h Header) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name      string           `json:"name"`
		Value     Optional[string] `json:"value,omitzero"`
		Sensitive bool             `json:"sensitive"`
	}(h))
}

// Auth says how requests authenticate to the receiver. Type decides which other fields are needed.
// A response has no secrets. A change replaces all fields; a secret that is left out is kept if
// type and host stay the same.
type Auth struct {
	Type         postrider.AuthKind `json:"type" enum:"basic,bearer,api_key,oauth2"`
	Username     string             `json:"username,omitempty" doc:"With basic."`
	Password     string             `json:"password,omitempty" minLength:"1" writeOnly:"true" doc:"With basic."`
	Token        string             `json:"token,omitempty" minLength:"1" writeOnly:"true" doc:"With bearer."`
	Header       string             `json:"header,omitempty" doc:"With api_key: name of the header that holds the key."`
	Key          string             `json:"key,omitempty" minLength:"1" writeOnly:"true" doc:"With api_key."`
	TokenURL     string             `json:"token_url,omitempty" doc:"With oauth2: URL of the token endpoint."`
	ClientID     string             `json:"client_id,omitempty" doc:"With oauth2."`
	ClientSecret string             `json:"client_secret,omitempty" minLength:"1" writeOnly:"true" doc:"With oauth2."`
	Scopes       []string           `json:"scopes,omitempty" nullable:"false" doc:"With oauth2."`
	Audience     string             `json:"audience,omitempty" doc:"With oauth2."`
}

// String returns only the type. It keeps the secrets out of log lines and errors that print the
// whole struct.
func (a Auth) String() string { return "auth " + string(a.Type) }

// GoString returns only the type, to keep the secrets out of %#v.
func (a Auth) GoString() string { return a.String() }

// TLS has the client certificate and the certificate authorities for connections to
// one endpoint, in PEM. A response has no key.
type TLS struct {
	Certificate string `json:"certificate,omitempty" doc:"Client certificate chain, the leaf first, in PEM."`
	Key         string `json:"key,omitempty" minLength:"1" writeOnly:"true" doc:"Private key of the certificate, in PEM."`
	Authorities string `json:"authorities,omitempty" doc:"Certificate authorities that must have issued the receiver's certificate, instead of the system's, in PEM."`
}

// String returns a fixed text, which keeps the key out of log lines and errors.
func (TLS) String() string { return "tls" }

// GoString returns a fixed text, to keep the key out of %#v.
func (TLS) GoString() string { return "tls" }
