package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

// SubscriptionQuery asks which subscription of an endpoint selected the events of a time.
type SubscriptionQuery struct {
	Endpoint postrider.EndpointID
	At       time.Time
}

// PastSubscriptions asks which subscriptions of endpoints selected the events of a time.
type PastSubscriptions struct {
	Endpoints []postrider.EndpointID
	At        time.Time
}

// subscriptionDocument is the stored form of an earlier subscription. A new field is omitempty, and its
// zero value selects all events.
type subscriptionDocument struct {
	EventTypes []postrider.Pattern `json:"event_types"`
	Filter     string              `json:"filter,omitempty"` // a text, so that its bytes are kept
	Channels   []string            `json:"channels,omitempty"`
	Changed    []string            `json:"changed,omitempty"`
	Condition  string              `json:"condition,omitempty"`
}

// EncodeSubscription returns the stored form of a subscription. Two subscriptions differ if their stored
// forms do.
func EncodeSubscription(s postrider.Subscription) string {
	d := subscriptionDocument(s)
	d.EventTypes = append([]postrider.Pattern{}, d.EventTypes...)
	document, _ := json.Marshal(d) // no error: texts and lists of texts have a form
	return string(document)
}

// DecodeSubscription reads the document that [EncodeSubscription] wrote. If a newer program wrote it
// with fields that this one does not know, the error is postrider.ErrNotFound: part of an answer would
// be a wrong answer.
func DecodeSubscription(document []byte) (postrider.Subscription, error) {
	var d subscriptionDocument
	if err := jsonx.DecodeStored(document, &d); err != nil {
		return postrider.Subscription{}, fmt.Errorf("decode subscription: %w: %w", postrider.ErrNotFound, err)
	}
	return postrider.Subscription(d), nil
}

// SalvageSubscription returns what this program can read of the document that [EncodeSubscription] wrote.
// The rest leaves out no event.
func SalvageSubscription(document []byte) postrider.Subscription {
	var d subscriptionDocument
	_ = json.Unmarshal(document, &d) // goes on after a field of the wrong type
	return postrider.Subscription(d)
}
