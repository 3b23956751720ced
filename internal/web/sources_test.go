package web_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/web"
)

// noOutboxes reaches no database of a producer.
type noOutboxes struct{}

// Open implements [sources.Outboxes].
func (noOutboxes) Open(context.Context, postrider.Source) (*outbox.DB, error) {
	return nil, errors.New("no route to the producer " + hostile)
}

// EncryptSource implements [sources.Vault].
func (vault) EncryptSource(_ context.Context, s *postrider.Source, password string) error {
	s.Password = []byte(password)
	return nil
}

// sourceStates lists the pages of sources in their states.
var sourceStates = []state{
	{name: "no sources", path: "/sources", people: "operator", want: []string{"Events are read from no database yet"}},
	{name: "sources", path: "/sources", people: "operator", prepare: (*world).hostileSource, want: []string{"Stopped", "12"}},
	{
		name: "a source", path: "/sources/{source}", people: "operator", prepare: (*world).hostileSource,
		want: []string{"The database of the producer cannot be read now.", "Oldest open transaction", "One event may be missing"},
	},
}

// hostileSource makes a source whose reader has failed.
func (w *world) hostileSource(path string) string {
	w.Helper()
	s, err := w.admin.PutSource(w.Context(), hostile[:20], apitypes.SourcePut{DatabaseURL: "postgres://reader@producer.example/shop"}, true)
	if err != nil {
		w.Fatal(err)
	}
	now := w.store.Clock().Wall()
	err = w.store.NoteSource(w.Context(), s.ID, postrider.SourceState{
		At: now, Node: hostile, Error: hostile, ErrorSince: now, Waiting: 12, Oldest: now, OpenSince: now, Rejected: 3, Missing: 1,
	})
	if err != nil {
		w.Fatal(err)
	}
	return strings.ReplaceAll(path, "{source}", s.ID.String())
}

func TestASourceIsPausedResumedAndDeletedOnItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	s, err := w.admin.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: "postgres://reader@producer.example/shop"}, true)
	if err != nil {
		t.Fatal(err)
	}
	page := "/dashboard/sources/" + s.ID.String()
	for _, step := range []struct{ action, say string }{
		{"pause", "The source is paused."}, {"resume", "The source is read again."}, {"delete", "The source is deleted."},
	} {
		w.submit("operator", page+"/"+step.action, nil).says(t, step.say)
	}
	if sources, err := w.admin.Sources(t.Context()); err != nil || len(sources) != 0 {
		t.Errorf("after the deletion there are %v, %v", sources, err)
	}
}
