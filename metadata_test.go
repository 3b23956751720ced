package postrider_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestMetadataHasLimits(t *testing.T) {
	t.Parallel()
	twenty := postrider.Metadata{}
	for i := range postrider.MaxMetadataKeys {
		twenty[fmt.Sprint("key", i)] = "value"
	}
	many := postrider.Metadata{"one more": ""}
	maps.Copy(many, twenty)
	long := strings.Repeat("k", postrider.MaxMetadataKey)
	for _, tt := range []struct {
		name     string
		metadata postrider.Metadata
		want     []string // fields and codes of the faults
	}{
		{"none", nil, nil},
		{"as many keys as may be", twenty, nil},
		{"one key more", many, []string{"metadata wrong_count"}},
		{"as many bytes as may be", postrider.Metadata{"k": strings.Repeat("v", postrider.MaxMetadata-1)}, nil},
		{"one byte more", postrider.Metadata{"k": strings.Repeat("v", postrider.MaxMetadata)}, []string{"metadata too_long"}},
		{"the longest key, and an empty value", postrider.Metadata{long: ""}, nil},
		{"a longer key", postrider.Metadata{long + "k": ""}, []string{"metadata malformed"}},
		{"an empty key", postrider.Metadata{"": "v"}, []string{"metadata malformed"}},
		{"a control character in a key", postrider.Metadata{"a\nb": "v"}, []string{"metadata malformed"}},
		{
			"all faults at once",
			postrider.Metadata{"": "v", "a": "\x00", "b": "\xff", "c": strings.Repeat("v", postrider.MaxMetadata)},
			[]string{"metadata too_long", "metadata malformed", "metadata.a malformed", "metadata.b malformed"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, fault := range postrider.Faults(tt.metadata.Check("metadata")) {
				got = append(got, fault.Field+" "+string(fault.Code))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("Check = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMetadataHasWhatAFilterAsksFor(t *testing.T) {
	t.Parallel()
	m := postrider.Metadata{"plan": "gold", "region": "eu", "note": ""}
	for _, tt := range []struct {
		filter postrider.Metadata
		want   bool
	}{
		{nil, true},
		{postrider.Metadata{"plan": "gold"}, true},
		{postrider.Metadata{"plan": "gold", "region": "eu"}, true},
		{postrider.Metadata{"plan": "gold", "region": "us"}, false},
		{postrider.Metadata{"plan": "gol"}, false},
		{postrider.Metadata{"other": ""}, false},
	} {
		if got := m.Has(tt.filter); got != tt.want {
			t.Errorf("Has(%v) = %v, want %v", tt.filter, got, tt.want)
		}
	}
}
