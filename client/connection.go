package client

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// Signature says how an endpoint's requests are signed.
type Signature struct {
	Schemes []Scheme `json:"schemes"` // all of them are on every request
}

// Scheme is a signature scheme, with a header of the endpoint's choice where
// Header is not empty.
type Scheme struct {
	Scheme postrider.Scheme `json:"scheme"`
	Header string           `json:"header,omitempty"` // only with github, github-sha1, shopify and plain
	Prefix string           `json:"prefix,omitempty"` // in front of the signature; only with a header
}

// MarshalJSON returns the name alone of a scheme without a header.
func (s Scheme) MarshalJSON() ([]byte, error) {
	if s.Header == "" && s.Prefix == "" {
		return json.Marshal(s.Scheme)
	}
	type plain Scheme
	return json.Marshal(plain(s))
}

// UnmarshalJSON takes both forms.
func (s *Scheme) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*s = Scheme{}
		return json.Unmarshal(text, &s.Scheme)
	}
	type plain Scheme
	return json.Unmarshal(text, (*plain)(s))
}

// Header is a header of an endpoint's own. The value of a sensitive one is
// empty in answers; sent empty, it stays what it was.
type Header struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Sensitive bool   `json:"sensitive"` // kept encrypted, and never shown
}

// MarshalJSON leaves out the empty value of a sensitive header.
func (h Header) MarshalJSON() ([]byte, error) {
	type plain Header
	if !h.Sensitive || h.Value != "" {
		return json.Marshal(plain(h))
	}
	return json.Marshal(struct {
		Name      string `json:"name"`
		Sensitive bool   `json:"sensitive"`
	}{h.Name, true})
}

// Auth is how requests authenticate towards an endpoint. Answers have no
// secrets; a change without one keeps that of the same type, for the same host.
// The zero Auth is none.
type Auth struct {
	Type         postrider.AuthKind `json:"type"`
	Username     string             `json:"username,omitempty"`      // basic
	Password     string             `json:"password,omitempty"`      // basic
	Token        string             `json:"token,omitempty"`         // bearer
	Header       string             `json:"header,omitempty"`        // api_key: the header that the key goes into
	Key          string             `json:"key,omitempty"`           // api_key
	TokenURL     string             `json:"token_url,omitempty"`     // oauth2: where tokens come from
	ClientID     string             `json:"client_id,omitempty"`     // oauth2
	ClientSecret string             `json:"client_secret,omitempty"` // oauth2
	Scopes       []string           `json:"scopes,omitempty"`        // oauth2; may be empty
	Audience     string             `json:"audience,omitempty"`      // oauth2; may be empty
}

// MarshalJSON returns null for the zero Auth.
func (a Auth) MarshalJSON() ([]byte, error) {
	if a.Type == "" || a.Type == postrider.AuthNone {
		return []byte("null"), nil
	}
	type plain Auth
	return json.Marshal(plain(a))
}

// String keeps the secrets out of every text.
func (a Auth) String() string { return "auth " + string(a.Type) }

// GoString keeps them out of %#v.
func (a Auth) GoString() string { return a.String() }

// TLS is what connections to an endpoint have of their own, in PEM. Answers have
// no key; a change of the same certificate without one keeps it. The zero TLS
// is none.
type TLS struct {
	Certificate string `json:"certificate,omitempty"` // shown to the receiver, the leaf first
	Key         string `json:"key,omitempty"`         // of the certificate
	Authorities string `json:"authorities,omitempty"` // whom the receiver's certificate must come from
}

// MarshalJSON returns null for the zero TLS.
func (t TLS) MarshalJSON() ([]byte, error) {
	if t == (TLS{}) {
		return []byte("null"), nil
	}
	type plain TLS
	return json.Marshal(plain(t))
}

// String keeps the key out of every text.
func (TLS) String() string { return "tls" }

// GoString keeps it out of %#v.
func (TLS) GoString() string { return "tls" }
