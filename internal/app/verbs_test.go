package app

import (
	"errors"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// TestObserversHearOfCallsOfTheStore makes calls that succeed and that are refused. A house
// test checks that every verb is there, under its name.
func TestObserversHearOfCallsOfTheStore(t *testing.T) {
	t.Parallel()
	var heard []observe.StoreCall
	v := verbs{memory.New(memory.Options{}), func(c observe.StoreCall) { heard = append(heard, c) }}
	if _, err := v.Due(t.Context(), store.Due{Max: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{ID: postrider.EndpointID{1}, Revision: 7}}); err == nil {
		t.Fatal("an endpoint that does not exist was changed")
	}
	if len(heard) != 2 || heard[0].Verb != "Due" || heard[0].Err != nil || heard[1].Verb != "PutEndpoint" || !errors.Is(heard[1].Err, postrider.ErrNotFound) {
		t.Errorf("heard of %+v, want Due, and PutEndpoint with its error", heard)
	}
	silent := verbs{memory.New(memory.Options{}), nil}
	if _, err := silent.Due(t.Context(), store.Due{Max: 1}); err != nil {
		t.Errorf("without an observer: %v", err)
	}
}
