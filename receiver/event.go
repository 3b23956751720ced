package receiver

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/signature"
)

// Event is what a verified request brought. Nothing in it tells the first attempt
// from later ones.
type Event struct {
	// ID names the event, the same in every attempt, and is never empty. What
	// one is depends on what the scheme signs, since what is not signed may have
	// been put there by anyone who once saw a request:
	//
	//   - Standard and Svix sign an id, and this is it. Only by it the event is
	//     known again.
	//   - For the others it is the one that [Options].Identify finds in the
	//     body, which is signed. Again the event is known only by it.
	//   - Failing that it is the one in the header: Webhook-Id (Timestamped),
	//     X-GitHub-Delivery, X-Shopify-Event-Id, X-Event-ID (Plain). The event
	//     is known by it and its body together, so that nobody who recorded a
	//     request can have another event taken for processed. They can send
	//     what they recorded again with another id, which is then processed:
	//     within the tolerance of the timestamp (Timestamped), or at any time.
	//   - Failing that, as in requests of Stripe and Slack, it is a hash of the
	//     body, and events with the same bytes are one event. Bodies that name
	//     their event, as theirs do, are safe.
	ID string

	// Type is the event's type, or empty: the header that GitHub, Shopify and
	// Plain have for it, which they do not sign, or else the member "type" of a
	// JSON body.
	Type string

	Timestamp time.Time        // of the attempt, signed; zero where the scheme signs none
	Header    http.Header      // of the request; not signed, but for what the scheme signs
	Body      []byte           // as it was signed
	Scheme    signature.Scheme // by which the request is authentic

	key       string // what the store knows the event by
	claim     Claim
	challenge string // what Postrider wants echoed; empty: it is an event
}

func newEvent(scheme signature.Scheme, h http.Header, body []byte, identify func(Event) string) Event {
	names := headersOf[scheme]
	said := read(body)
	e := Event{
		ID: h.Get(names.id), Type: cmp.Or(h.Get(names.eventType), said.Type), Timestamp: sentAt(scheme, h),
		Header: h, Body: body, Scheme: scheme,
	}
	if said.Type == challengeType {
		e.challenge = said.Challenge
	}
	if signsID(scheme) {
		e.key = keyOf(e.ID)
		return e
	}
	if id := identify(e); id != "" {
		e.ID, e.key = id, keyOf(id)
		return e
	}
	e.key = hashed(e.ID, body)
	if e.ID == "" {
		e.ID = e.key
	}
	return e
}

// companions are the headers that describe the event beside its signature.
type companions struct{ id, eventType, timestamp string }

var headersOf = map[signature.Scheme]companions{
	signature.Standard:    {id: "Webhook-Id", timestamp: "Webhook-Timestamp"},
	signature.Svix:        {id: "Svix-Id", timestamp: "Svix-Timestamp"},
	signature.Timestamped: {id: "Webhook-Id", timestamp: "Webhook-Timestamp"},
	signature.Slack:       {timestamp: "X-Slack-Request-Timestamp"},
	signature.GitHub:      {id: "X-GitHub-Delivery", eventType: "X-GitHub-Event"},
	signature.GitHubSHA1:  {id: "X-GitHub-Delivery", eventType: "X-GitHub-Event"},
	signature.Shopify:     {id: "X-Shopify-Event-Id", eventType: "X-Shopify-Topic"},
	signature.Plain:       {id: "X-Event-ID", eventType: "X-Webhook-Event"},
}

// signsID reports whether the event's id is signed with its body.
func signsID(scheme signature.Scheme) bool {
	return scheme == "" || scheme == signature.Standard || scheme == signature.Svix
}

// maxKey is the longest id that is a store's key as it is: an index has its
// limits. Postrider's have half of that.
const maxKey = 128

func keyOf(id string) string {
	if len(id) > maxKey || strings.HasPrefix(id, hashPrefix) {
		return hashed(id, nil)
	}
	return id
}

// hashPrefix begins keys that are not ids. Signed ids have no dot.
const hashPrefix = "sha256."

// hashed returns a key for an id and a body, either of which may be empty. The
// length keeps them apart.
func hashed(id string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(strconv.Itoa(len(id)) + "." + id))
	h.Write(body)
	return hashPrefix + hex.EncodeToString(h.Sum(nil))
}

// content is what the kit itself looks for in a body.
type content struct {
	Type      string `json:"type,omitempty"`
	Challenge string `json:"challenge,omitempty"`
}

// challengeType is the type of what Postrider asks a new endpoint to echo.
const challengeType = "postrider.challenge"

// read returns nothing for a body that is no JSON object, or has members of other
// types.
func read(body []byte) content {
	var c content
	if len(body) == 0 || body[0] != '{' || json.Unmarshal(body, &c) != nil {
		return content{}
	}
	return c
}

// sentAt reads a timestamp that was verified, so that it has the form it must.
func sentAt(scheme signature.Scheme, h http.Header) time.Time {
	text := h.Get(headersOf[scheme].timestamp)
	if scheme == signature.Stripe {
		for item := range strings.SplitSeq(h.Get("Stripe-Signature"), ",") {
			if t, ok := strings.CutPrefix(item, "t="); ok {
				text = t
			}
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
