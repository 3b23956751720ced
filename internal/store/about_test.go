package store_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// TestTheStoredFormOfAbout holds the bytes that are stored, because stores of older versions have them.
func TestTheStoredFormOfAbout(t *testing.T) {
	t.Parallel()
	trace := postrider.TraceParent{0: 'a', 23: 'z'}
	none := string(make([]byte, 24))
	one, err := postrider.ParseID[postrider.EndpointID]("ep_01h455vb4pex5vsknk084sn02q")
	if err != nil {
		t.Fatal(err)
	}
	row := postrider.OutboxID(one)
	for _, tt := range []struct {
		event postrider.Event
		want  string
	}{
		{postrider.Event{}, ""},
		{postrider.Event{TraceParent: trace}, string(trace[:])},
		{postrider.Event{TraceParent: trace, TraceState: "a=b"}, string(trace[:]) + "a=b"},
		{postrider.Event{About: postrider.About{Subject: "a<b"}}, none + "\n{\"subject\":\"a<b\"}\n"},
		{
			postrider.Event{About: postrider.About{
				Channels: []string{"c"}, Metadata: map[string]string{"b": "2", "a": "1"}, Internal: map[string]string{"i": "\n"},
				ChangedPaths: []string{"$.b", "$.a"},
			}},
			none + "\n" + `{"channels":["c"],"metadata":{"a":"1","b":"2"},"internal":{"i":"\n"}}` + "\n$.b\n$.a",
		},
		{
			postrider.Event{Endpoints: []postrider.EndpointID{one, one}, About: postrider.About{Subject: "s", Previous: []byte("{}")}},
			none + "\n" + `{"subject":"s","endpoints":["ep_01h455vb4pex5vsknk084sn02q","ep_01h455vb4pex5vsknk084sn02q"]}` + "\n{}",
		},
		{postrider.Event{About: postrider.About{ContentType: "text/csv"}}, none + "\n{\"content_type\":\"text/csv\"}\n"},
		{postrider.Event{Endpoints: []postrider.EndpointID{one}}, none + "\n" + `{"endpoints":["ep_01h455vb4pex5vsknk084sn02q"]}` + "\n"},
		{
			postrider.Event{OccurredAt: time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.FixedZone("", 3600)).Truncate(time.Microsecond), Row: row},
			none + "\n" + `{"occurred_at":"2026-05-04T02:02:01.123456Z","row":"obx_01h455vb4pex5vsknk084sn02q"}` + "\n",
		},
		{
			postrider.Event{TraceParent: trace, TraceState: "a=b", About: postrider.About{Previous: []byte("{\n}")}},
			string(trace[:]) + "a=b\n{}\n{\n}",
		},
	} {
		text := bytes.Clone(store.EncodeAbout(&tt.event))
		if string(text) != tt.want || (text == nil) != (tt.want == "") {
			t.Errorf("%+v is stored as %q, want %q", tt.event, text, tt.want)
		}
		got := postrider.Event{
			TraceState: "old", OccurredAt: time.Unix(1, 0), Row: row, Endpoints: []postrider.EndpointID{one}, About: postrider.About{Subject: "old"},
		}
		if err := store.DecodeAbout(&got, text); err != nil {
			t.Errorf("DecodeAbout(%q) = %v", text, err)
		}
		for i := range text {
			text[i] = 'x' // a store reuses its buffer
		}
		if diff := cmp.Diff(tt.event, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.want, diff)
		}
	}
	for _, damaged := range []string{"short", none + "\n", none + "\n{", none + "\nsubject\n"} {
		if err := store.DecodeAbout(&postrider.Event{}, []byte(damaged)); err == nil {
			t.Errorf("DecodeAbout(%q) succeeds", damaged)
		}
	}
}
