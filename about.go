package postrider

import (
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"
)

// About is what an event says of itself, beside its type and its data. An empty field says nothing.
type About struct {
	Subject  string   // what the event is about, such as order/42
	Channels []string // names by which endpoints choose among the events of a type
	Metadata map[string]string
	Internal map[string]string // as Metadata, but no caller that is bound to an account sees it
	// Previous is the object before the change that the event tells of: a JSON object with exactly the
	// bytes that the producer sent.
	Previous json.RawMessage
	// ChangedPaths are the places in the data that changed, such as $.status. An event has either
	// Previous or ChangedPaths.
	ChangedPaths []string
	ContentType  string // media type of data that is not JSON; empty: it is JSON
}

// The limits of what an event says of itself. Lengths are in bytes.
const (
	MaxSubject      = 256
	MaxChannels     = 10
	MaxChannel      = 128
	MaxChangedPaths = 100
	MaxContentType  = 128
)

// IsZero reports whether the event says nothing of itself.
func (a *About) IsZero() bool {
	return a.Subject == "" && a.ContentType == "" && len(a.Channels)+len(a.Metadata)+len(a.Internal)+len(a.Previous)+len(a.ChangedPaths) == 0
}

// Size returns the number of bytes of all fields.
func (a *About) Size() int {
	n := len(a.Subject) + len(a.ContentType) + len(a.Previous) + sizeOf(a.Metadata) + sizeOf(a.Internal)
	for _, list := range [...][]string{a.Channels, a.ChangedPaths} {
		for _, text := range list {
			n += len(text)
		}
	}
	return n
}

func sizeOf(m map[string]string) (n int) {
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}

// Check returns all faults, joined: an [InvalidError] for each field, by its name in the API. It does
// not parse Previous: the decoder of the request has checked that it is JSON.
func (a *About) Check() error {
	if a.IsZero() {
		return nil
	}
	var f faults
	f.text("subject", a.Subject)
	f.short("subject", a.Subject, MaxSubject)
	f.channels(a.Channels)
	f.join(Metadata(a.Metadata).Check("metadata"))
	f.join(Metadata(a.Internal).Check("internal"))
	f.add(len(a.Previous) > 0 && a.Previous[0] != '{', "previous", FaultMalformed, "must be an object")
	f.paths("changed_paths", a.ChangedPaths, MaxChangedPaths)
	f.add(len(a.Previous) > 0 && len(a.ChangedPaths) > 0, "changed_paths", FaultContradictory, "must be left out with previous")
	f.add(len(a.Previous) > 0 && a.ContentType != "", "previous", FaultContradictory, "must be left out with content_type")
	f.contentType(a.ContentType)
	return f.joined()
}

// contentType checks the media type of data that is not JSON, which becomes a header of requests.
func (f *faults) contentType(text string) {
	if text == "" {
		return
	}
	kind, _, err := mime.ParseMediaType(text)
	hidden := func(r rune) bool { return r < ' ' || r > '~' }
	f.add(err != nil || !strings.Contains(kind, "/") || strings.ContainsFunc(text, hidden) || strings.TrimSpace(text) != text,
		"content_type", FaultMalformed, "must be a media type such as text/csv")
	f.add(kind == "application/json", "content_type", FaultContradictory, "must be left out for JSON")
	f.short("content_type", text, MaxContentType)
}

// channels checks the channels of an event or of an endpoint.
func (f *faults) channels(channels []string) {
	f.list("channels", channels, MaxChannels, func(field, channel string) {
		f.add(channel == "", field, FaultRequired, "must not be empty")
		f.text(field, channel)
		f.short(field, channel, MaxChannel)
	})
}

// paths checks a list of paths; see [ParsePath].
func (f *faults) paths(field string, paths []string, most int) {
	f.list(field, paths, most, func(field, path string) {
		_, err := ParsePath(field, path)
		f.join(err)
	})
}

// text appends an [InvalidError] for the field unless the text is [IsText].
func (f *faults) text(field, text string) {
	f.add(!IsText(text), field, FaultMalformed, "must be UTF-8 without control characters")
}

// list checks the number of the texts and, if it is right, each of them. No text may occur twice.
func (f *faults) list(field string, texts []string, most int, check func(field, text string)) {
	if len(texts) > most {
		f.join(&InvalidError{Field: field, Code: FaultWrongCount, Reason: fmt.Sprintf("must have at most %d elements", most), Max: int64(most)})
		return
	}
	for i, text := range texts {
		field := fmt.Sprintf("%s[%d]", field, i)
		check(field, text)
		f.add(slices.Contains(texts[:i], text), field, FaultRepeated, "must not occur twice")
	}
}
