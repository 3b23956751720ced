package apitypes

import "github.com/postrider/postrider"

// SearchHits are the objects that match a text.
type SearchHits struct {
	Data       []SearchHit `json:"data" nullable:"false" maxItems:"20"`
	ValuePaths []string    `json:"value_paths" nullable:"false" doc:"Paths at which the values in the data of events were searched, at most 50. Empty: none, because no event type names a path or the search is not for one account."`
	Total      int         `json:"total" doc:"Number of objects that were found, of which data has at most 20. Counting stops at 250 names and 250 parts of paths."`
}

// SearchHit is one object that matches a text.
type SearchHit struct {
	Kind      string               `json:"kind" enum:"account,endpoint,event,delivery,event_type,api_key,replay" doc:"What was found. A secret is found as its endpoint."`
	ID        string               `json:"id" doc:"Id of the object; of an event type its name."`
	Account   *postrider.AccountID `json:"account" nullable:"true" doc:"Account that the object belongs to. Null: none."`
	Title     string               `json:"title" doc:"What people know it by: the name of an account or a key, the URL of an endpoint, the event type of an event or a delivery, what a replay does."`
	MatchedBy string               `json:"matched_by" enum:"id,uid,secret,idempotency_key,ordering_key,value,name" doc:"What of the object matches. uid: the whole uid of an account. value: a value in the data of an event. name: a part of its name, uid, description or URL."`
	CreatedAt Time                 `json:"created_at" format:"date-time"`
}

// DeadLetterGroup is the group of the unresolved dead letters of one endpoint that have the same
// cause.
type DeadLetterGroup struct {
	Account        postrider.AccountID  `json:"account"`
	Endpoint       postrider.EndpointID `json:"endpoint"`
	Reason         string               `json:"reason" enum:"exhausted,gone,client_error,aborted_by_receiver,expired,filter_failed,system"`
	LastStatusCode *int                 `json:"last_status_code" doc:"Status code of the last response. Null: there was none."`
	LastError      *string              `json:"last_error" doc:"Error of the last attempt."`
	Count          int                  `json:"count" maximum:"1000" doc:"Number of dead letters, counted up to 1,000."`
	Oldest         postrider.DeliveryID `json:"oldest" doc:"Id of the dead letter whose delivery was created first."`
	OldestAt       Time                 `json:"oldest_at" format:"date-time" doc:"Time when the delivery of the oldest one was created."`
	Newest         postrider.DeliveryID `json:"newest" doc:"Id of the dead letter whose delivery was created last."`
	NewestAt       Time                 `json:"newest_at" format:"date-time" doc:"Time when the delivery of the newest one was created."`
}
