package postrider

import "time"

// EndpointKind says where an endpoint's requests go. It never changes.
type EndpointKind string

// The kinds of endpoints.
const (
	// KindHTTP: requests are sent to the endpoint's URL.
	KindHTTP EndpointKind = "http"
	// KindInspector: requests are signed like all others, verified as a receiver would verify them,
	// and kept for people to look at. They never leave the server. The endpoint has no URL, and
	// nothing from outside can send to it.
	KindInspector EndpointKind = "inspector"
)

// The limits of the requests that an inspector keeps for one endpoint.
const (
	InspectionsKept   = 100            // number of requests; a new request replaces the oldest
	InspectionKeptFor = 24 * time.Hour // time for which each request is kept
	MaxInspectionBody = 256 << 10      // bytes that are kept of a body; the rest is cut off
)

// Inspection is a request that an inspector endpoint got. The dispatcher's attempt writes it. It
// never changes.
type Inspection struct {
	ID        InspectionID // contains the time
	At        time.Time    // when the request was made
	Endpoint  EndpointID
	Delivery  DeliveryID
	Event     EventID
	EventType string
	Attempt   int
	Header    []HeaderField // header as a receiver would get it, with credentials [Masked]
	Body      []byte        // first MaxInspectionBody bytes of the body, not compressed; nil in lists
	BodyBytes int           // length of the whole body
	Verdicts  []Verdict     // one for each scheme of the endpoint
}

// Verdict says whether a request verifies in one scheme with one of the endpoint's secrets.
type Verdict struct {
	Scheme Scheme
	Header string   // name of the header that carries the signature
	Secret SecretID // newest secret with which the request verifies; zero: it verifies with none
	Error  string   // why the request does not verify; empty: it does
}
