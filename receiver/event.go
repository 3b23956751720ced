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

// Event is the content of a verified request. No field distinguishes the first attempt from later
// ones.
type Event struct {
	// ID identifies the event. It is the same in every attempt and is never empty. Anyone who has
	// once seen a request can send it again with a changed header, if the scheme does not sign that
	// header. So the source of ID depends on the scheme. The first rule that applies is used:
	//
	//   - Standard and Svix sign an id. ID is that id, and the store knows the
	//     event by it.
	//   - For other schemes, ID is what [Options].Identify finds in the body, which
	//     is signed. The store knows the event by it.
	//   - Otherwise, ID is in a header: Webhook-Id (Timestamped), X-GitHub-Delivery,
	//     X-Shopify-Event-Id, X-Event-ID (Plain). The store knows the event by ID
	//     and body together. So a person who recorded a request cannot make another
	//     event look processed. That person can send the recorded request again
	//     with another id, and it is processed again: within the tolerance of the
	//     timestamp (Timestamped), or at any time (the others).
	//   - Otherwise, as for Stripe and Slack, ID is a hash of the body, and requests
	//     with the same body are one event. This is safe if bodies contain the
	//     event's id, as the bodies of Stripe and Slack do.
	ID string

	// Type is the event's type, or empty. GitHub, Shopify and Plain have it in a header, which they
	// do not sign. For the other schemes, and if that header is missing, Type is the member "type"
	// of a JSON body.
	Type string

	Timestamp time.Time        // signed time of the attempt; zero if the scheme signs no timestamp
	Header    http.Header      // header of the request; only the fields that the scheme signs are verified
	Body      []byte           // the body in its signed form, before compression
	Scheme    signature.Scheme // scheme in which the request was verified

	key       string // key of the event in the store
	claim     Claim
	challenge string // challenge that Postrider wants echoed; empty: the request is an event
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

// companions are the names of the headers that describe the event, in addition to its signature.
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

// signsID reports whether the scheme signs the event's id together with the body.
func signsID(scheme signature.Scheme) bool {
	return scheme == "" || scheme == signature.Standard || scheme == signature.Svix
}

// maxKey is the greatest length of an id that the store uses unchanged, because a database index
// limits the length of keys. The ids of Postrider are at most half as long.
const maxKey = 128

func keyOf(id string) string {
	if len(id) > maxKey || strings.HasPrefix(id, hashPrefix) {
		return hashed(id, nil)
	}
	return id
}

// hashPrefix is the prefix of keys that are hashes. A signed id contains no dot, so it never begins
// with this prefix.
const hashPrefix = "sha256."

// hashed returns a key for an id and a body, either of which may be empty. It also hashes the id's
// length, which separates the id from the body.
func hashed(id string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(strconv.Itoa(len(id)) + "." + id))
	h.Write(body)
	return hashPrefix + hex.EncodeToString(h.Sum(nil))
}

// content has the members of a body that this package reads itself.
type content struct {
	Type      string `json:"type,omitempty"`
	Challenge string `json:"challenge,omitempty"`
}

// challengeType is the type of the request that Postrider sends to verify a new endpoint.
const challengeType = "postrider.challenge"

// read returns the zero content for a body that is no JSON object or has members of other types.
func read(body []byte) content {
	var c content
	if len(body) == 0 || body[0] != '{' || json.Unmarshal(body, &c) != nil {
		return content{}
	}
	return c
}

// sentAt reads the timestamp of a verified request, which therefore has a valid form.
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
