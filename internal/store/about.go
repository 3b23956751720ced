package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// EncodeAbout returns the stored form of the trace of an event, of what it says of itself, of its
// Endpoints, and of its OccurredAt and Row: the bytes of TraceParent, the text of TraceState, and if the
// event has one of the others, a line feed and the form of [appendAbout]. No TraceState has a line feed. It returns nil if the event has
// nothing of it.
//
// All are in one column, because few events have them, and each further column costs every event a
// byte on SQLite.
func EncodeAbout(e *postrider.Event) []byte {
	if e.TraceParent.IsZero() && !says(e) {
		return nil
	}
	about := append(e.TraceParent[:len(e.TraceParent):len(e.TraceParent)], e.TraceState...)
	if says(e) {
		about = appendAbout(append(about, '\n'), e)
	}
	return about
}

// says reports whether the event has something that appendAbout stores.
func says(e *postrider.Event) bool {
	return !e.About.IsZero() || len(e.Endpoints) > 0 || !e.OccurredAt.IsZero() || !e.Row.IsZero()
}

// labels are the fields of [postrider.About] that have few bytes, and the other fields of an event that
// are stored with them.
type labels struct {
	Subject  string            `json:"subject,omitempty"`
	Channels []string          `json:"channels,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Internal map[string]string `json:"internal,omitempty"`

	Endpoints   []postrider.EndpointID `json:"endpoints,omitempty"`
	ContentType string                 `json:"content_type,omitempty"`

	OccurredAt time.Time          `json:"occurred_at,omitzero"`
	Row        postrider.OutboxID `json:"row,omitzero"`
}

// appendAbout appends what [says] asks for: a line of JSON with the labels, and then what
// changed. That is Previous, which begins with a brace, or the paths, one in a line.
func appendAbout(to []byte, e *postrider.Event) []byte {
	text, a := bytes.NewBuffer(to), &e.About
	lines := json.NewEncoder(text)
	lines.SetEscapeHTML(false)
	_ = lines.Encode(labels{
		a.Subject, a.Channels, a.Metadata, a.Internal, e.Endpoints, a.ContentType, e.OccurredAt.UTC().Truncate(time.Microsecond), e.Row,
	}) // cannot fail: these are texts, and the API refuses years of more than four digits
	text.Write(a.Previous)
	text.WriteString(strings.Join(a.ChangedPaths, "\n"))
	return text.Bytes()
}

// DecodeAbout sets the trace of the event, what it says of itself, its endpoints, OccurredAt and Row, from
// their stored form.
//
// A list reads no more than the first 16 KiB of that form. The trace and the labels are always within
// them. What is cut off belongs to what changed, which lists leave out.
func DecodeAbout(e *postrider.Event, kept []byte) error {
	e.TraceParent, e.TraceState, e.About, e.Endpoints = postrider.TraceParent{}, "", postrider.About{}, nil
	e.OccurredAt, e.Row = time.Time{}, postrider.OutboxID{}
	if kept == nil {
		return nil
	}
	n := len(e.TraceParent)
	if len(kept) < n {
		return fmt.Errorf("scan %d bytes as what is known about an event", len(kept))
	}
	state, text, said := bytes.Cut(kept[n:], []byte("\n"))
	e.TraceParent, e.TraceState = postrider.TraceParent(kept[:n]), string(state)
	if !said {
		return nil
	}
	line, changed, _ := bytes.Cut(text, []byte("\n"))
	var l labels
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("scan what an event says of itself: %w", err)
	}
	e.Endpoints, e.OccurredAt, e.Row = l.Endpoints, l.OccurredAt, l.Row
	e.About = postrider.About{
		Subject: l.Subject, Channels: l.Channels, Metadata: l.Metadata, Internal: l.Internal, ContentType: l.ContentType,
	}
	switch {
	case len(changed) > 0 && changed[0] == '{':
		e.About.Previous = slices.Clone(changed)
	case len(changed) > 0:
		e.About.ChangedPaths = strings.Split(string(changed), "\n")
	}
	return nil
}

// Shorten removes what lists of events leave out: the data, and what changed.
func Shorten(e *postrider.Event) { e.Data, e.About.Previous, e.About.ChangedPaths = nil, nil, nil }
