package options

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
)

// Every field that an update of the API has is in the form.
func TestOptionsFormIsComplete(t *testing.T) {
	t.Parallel()
	var known []string
	for _, group := range optionGroups {
		for _, o := range group.options {
			known = append(known, o.name)
		}
	}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for field := range of.Fields() {
			if field.Anonymous {
				walk(field.Type)
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !slices.Contains(known, name) {
				t.Errorf("the form has no option %s", name)
			}
		}
	}
	walk(reflect.TypeFor[apitypes.EndpointUpdate]())
}
