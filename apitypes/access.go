package apitypes

import "github.com/postrider/postrider"

// Capability is what a portal session may do in its account.
type Capability string

// The capabilities.
const (
	CapabilityView    Capability = "view"    // read endpoints, events, deliveries and attempts
	CapabilityOperate Capability = "operate" // pause, resume, enable, test and verify endpoints; replay and cancel deliveries
	CapabilityEdit    Capability = "edit"    // create, change, disable and delete endpoints; rotate and revoke secrets
	CapabilitySecrets Capability = "secrets" // show secrets
)

// PortalSessionCreate is a request for a one-time link to the customer portal.
type PortalSessionCreate struct {
	Account      string       `json:"account,omitempty" minLength:"1" doc:"Id or uid of the account whose portal the link opens. Required, unless the key is bound to an account."`
	Name         string       `json:"name,omitempty" maxLength:"256" doc:"Who gets the link, for the audit log; for instance an email address."`
	Capabilities []Capability `json:"capabilities,omitempty" nullable:"false" enum:"view,operate,edit,secrets" doc:"What the session may do. view: read. operate: pause, resume, enable, test and verify endpoints; replay and cancel deliveries. edit: create, change, disable and delete endpoints, rotate and revoke secrets. secrets: show secrets. Each includes view. Left out: all. The API key must be allowed to do the same."`
	TTLMS        *int64       `json:"ttl_ms,omitempty" minimum:"60000" maximum:"3600000" doc:"How long the session lasts; default one hour. It also ends with the API key."`
	Embedded     bool         `json:"embedded,omitempty" doc:"Whether the portal is shown in a frame of a page of your own. Your origin must be one of frame_origins of the portal."`
	Locale       string       `json:"locale,omitempty" maxLength:"35" example:"de" doc:"Language of the pages. Left out: the browser's."`
}

// PortalSession is a one-time link to the customer portal.
type PortalSession struct {
	ID            postrider.SessionID `json:"id"`
	URL           string              `json:"url" doc:"Give it to the customer's browser. It works once."`
	CodeExpiresAt Time                `json:"code_expires_at" format:"date-time" doc:"Until then the link must be opened: 60 s after it was made."`
	ExpiresAt     Time                `json:"expires_at" format:"date-time" doc:"End of the session."`
}

// Session is the right of a browser to use the pages.
type Session struct {
	ID         postrider.SessionID   `json:"id"`
	Kind       postrider.SessionKind `json:"kind" enum:"operator,portal"`
	Name       string                `json:"name" doc:"Name of the person or the API key."`
	Subject    *string               `json:"subject" doc:"Id of the person at the identity provider. Null: an API key issued the session."`
	Key        *postrider.KeyID      `json:"key" nullable:"true" doc:"The API key that issued the session. Null: the identity provider did."`
	Account    *postrider.AccountID  `json:"account" nullable:"true" doc:"The only account that the session reaches. Null: it reaches every account."`
	Scopes     []postrider.Scope     `json:"scopes" nullable:"false"`
	Embedded   bool                  `json:"embedded"`
	Opened     bool                  `json:"opened" doc:"Whether the one-time link was opened. An operator's session is always opened."`
	CreatedAt  Time                  `json:"created_at" format:"date-time"`
	ExpiresAt  Time                  `json:"expires_at" format:"date-time"`
	LastSeenAt *Time                 `json:"last_seen_at" format:"date-time" doc:"Time of the last use, to the minute. Null: never used."`
	RevokedAt  *Time                 `json:"revoked_at" format:"date-time"`
}

// AuditEntry records what a caller did, or tried and was refused.
type AuditEntry struct {
	ID       postrider.AuditID    `json:"id"`
	At       Time                 `json:"at" format:"date-time"`
	Action   string               `json:"action" example:"update-endpoint" doc:"Operation of the API; or login, logout, open-portal."`
	Outcome  string               `json:"outcome" example:"ok" doc:"ok, or the code of the problem. forbidden and unauthorized: nothing was done. Other codes: it is unknown whether it was done."`
	Key      *postrider.KeyID     `json:"key" nullable:"true" doc:"API key of the caller, or the one that issued its session."`
	Session  *postrider.SessionID `json:"session" nullable:"true" doc:"Session of the caller. Null: it used an API key."`
	Name     string               `json:"name" doc:"Name of the caller. Empty: unknown."`
	Account  *postrider.AccountID `json:"account" nullable:"true" doc:"Account that it was about."`
	Object   *string              `json:"object" example:"endpoint" doc:"Kind of the object that it was about."`
	ObjectID *string              `json:"object_id" doc:"Id or name of the object."`
	Request  string               `json:"request_id" doc:"Id of the request in the server's log."`
	Details  map[string]string    `json:"details" nullable:"false" doc:"More, by name; never a secret. fields: the fields of the request. A field that a change gave another value has its name here, with the old and the new value; changed: its values are not kept. Of a new endpoint, the fields that say which events it gets are here, with null as the old value."`
}

// PortalUpdate replaces the settings of the customer portal.
type PortalUpdate struct {
	Name         string             `json:"name,omitempty" maxLength:"64" doc:"Name of your platform, in the title of the portal."`
	Colour       string             `json:"colour,omitempty" pattern:"^(#[0-9a-fA-F]{6})?$" example:"#0a5f8e" doc:"Accent colour, #rrggbb. White text on it must have a contrast of 4.5 or more (WCAG 2.2, 1.4.3). Empty or left out: the standard one."`
	FrameOrigins []string           `json:"frame_origins,omitempty" nullable:"false" maxItems:"16" doc:"Origins whose pages may show the portal in a frame, like https://app.example."`
	Options      Optional[[]string] `json:"options,omitzero" doc:"Options of an endpoint's policy that portal sessions may set, by their names in the API. Null or left out: the standard ones."`
}

// Portal has the settings of the customer portal.
type Portal struct {
	Name         string   `json:"name"`
	Colour       *string  `json:"colour" doc:"Null: the standard one."`
	FrameOrigins []string `json:"frame_origins" nullable:"false"`
	Options      []string `json:"options" nullable:"false"`
	Logo         *string  `json:"logo" doc:"SHA-256 of the logo, in hex. Null: there is none."`
	UpdatedAt    *Time    `json:"updated_at" format:"date-time" doc:"Null: the settings never changed."`
}

// LogoUpdate replaces the logo of the customer portal.
type LogoUpdate struct {
	PNG string `json:"png" encoding:"base64" doc:"A PNG of at most 64 KiB and 512 by 512 pixels, in base64. It is decoded and encoded again."`
}

// Logo is the logo of the customer portal.
type Logo struct {
	PNG    []byte `json:"png" doc:"The PNG, in base64."`
	SHA256 string `json:"sha256" doc:"Its SHA-256, in hex."`
}
