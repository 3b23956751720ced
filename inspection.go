package postrider

import "time"

// EndpointKind says what becomes of an endpoint's requests. It never changes.
type EndpointKind string

// The kinds of endpoints.
const (
	// KindHTTP: requests are sent to the endpoint's URL.
	KindHTTP EndpointKind = "http"
	// KindInspector: requests are signed like all others, verified as a receiver
	// would, and kept for people to look at. They never leave the server, so the
	// endpoint has no URL, and nothing from outside gets into it.
	KindInspector EndpointKind = "inspector"
)

// The bounds of what an inspector keeps of an endpoint.
const (
	InspectionsKept   = 100            // requests; a new one replaces the oldest
	InspectionKeptFor = 24 * time.Hour // of each request
	MaxInspectionBody = 256 << 10      // bytes of a body; the rest is cut off
)

// Inspection is a request that an inspector endpoint got. The dispatcher's attempt
// writes it; it never changes.
type Inspection struct {
	ID        InspectionID // carries the time
	At        time.Time    // when the request was made
	Endpoint  EndpointID
	Delivery  DeliveryID
	Event     EventID
	EventType string
	Attempt   int
	Header    []HeaderField // as a receiver would get it, with credentials [Masked]
	Body      []byte        // its first MaxInspectionBody bytes, not compressed; nil in lists
	BodyBytes int           // length of the whole body
	Verdicts  []Verdict     // one for each scheme of the endpoint
}

// Verdict says whether a request verifies by one scheme, with one of the endpoint's
// secrets.
type Verdict struct {
	Scheme Scheme
	Header string   // name of the field that carries the signature
	Secret SecretID // newest secret with which it verifies; zero: it does not
	Error  string   // why it does not verify; empty: it does
}
