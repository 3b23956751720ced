package apitypes

import "encoding/json"

// About is what an event says of itself, beside its type and its data. A field that is left out says
// nothing. The fields are those of postrider.About, so that each converts to the other.
type About struct {
	Subject      string            `json:"subject,omitempty" minLength:"1" maxLength:"256" example:"order/42" doc:"What the event is about."`
	Channels     []string          `json:"channels,omitempty" nullable:"false" maxItems:"10" example:"[\"shop-7\"]" doc:"Names by which endpoints choose among the events of a type, of at most 128 bytes each. No name occurs twice."`
	Metadata     map[string]string `json:"metadata,omitempty" nullable:"false" doc:"Names and values of your own: at most 20, with at most 2,048 bytes together. Callers that are bound to the account can read them, and so can its customers in the portal."`
	Internal     map[string]string `json:"internal,omitempty" nullable:"false" doc:"As metadata, but no caller that is bound to an account can read or set it."`
	Previous     json.RawMessage   `json:"previous,omitempty" doc:"The object before the change that the event tells of: a JSON object. It is stored with the bytes that were sent. Lists leave it out."`
	ChangedPaths []string          `json:"changed_paths,omitempty" nullable:"false" maxItems:"100" example:"[\"$.status\"]" doc:"Places in data that changed, of at most 256 bytes each: $, which is all of data, followed by names and indexes, as in $.items[0].id. An event has either previous or changed_paths. Lists leave them out."`
	ContentType  string            `json:"content_type,omitempty" minLength:"1" maxLength:"128" example:"text/csv" doc:"Media type of data that is not JSON. Then data is a string: the text, or its base64 with data_encoding. It cannot be application/json, and previous must be left out. Filters see no fields of such data."`
}
