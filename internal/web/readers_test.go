package web_test

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	apinotices "github.com/postrider/postrider/internal/api/notices"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/notices"
)

// readers are those of a real API, in the form of the pages.
type readers struct{ *apinotices.Readers }

func (r readers) Find(ctx context.Context, action postrider.LinkAction, text string) (notices.Reader, error) {
	d, link, err := r.Readers.Find(ctx, action, text)
	return notices.Reader{Address: d.Address, Kind: link.Kind, Language: d.Language, Operator: d.Account.IsZero()}, err
}

// linked stores a destination of the world's account with a hostile address, and returns it
// with the path of a link about it.
func (w *world) linked(l postrider.DestinationLink) (postrider.DestinationID, string) {
	w.Helper()
	l.Destination = store.NewID[postrider.DestinationID](w.ids)
	d := postrider.Destination{
		ID: l.Destination, Account: w.account.ID, Channel: postrider.ChannelEmail,
		Address: hostile + l.Destination.String(), Language: "de",
	}
	if err := w.store.PutDestination(w.Context(), d, 100); err != nil {
		w.Fatal(err)
	}
	return l.Destination, "/notices/" + string(l.Action) + "/signed-" + hex.EncodeToString(l.Encode())
}

func (w *world) stateOf(id postrider.DestinationID) postrider.Destination {
	w.Helper()
	page, err := w.store.Destinations(w.Context(), store.DestinationQuery{ID: id})
	if err != nil || len(page.Items) != 1 {
		w.Fatalf("destination %s: %v, %v", id, page.Items, err)
	}
	return page.Items[0]
}

func TestLinksOfEmailsAskBeforeTheyAct(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		link       postrider.DestinationLink
		text       string
		done       func(postrider.Destination) bool
		inEnglish  string
		inLanguage string // of the destination
	}{
		{
			postrider.DestinationLink{Action: postrider.LinkConfirm, ExpiresAt: time.Now().Add(time.Hour)},
			"",
			func(d postrider.Destination) bool { return d.State() == postrider.DestinationActive }, "Confirm this address", "Adresse bestätigen",
		},
		{
			postrider.DestinationLink{Action: postrider.LinkUnsubscribe, Kind: postrider.NoticeDisabled},
			"<code>endpoint.disabled</code>",
			func(d postrider.Destination) bool {
				return !d.Wants(postrider.NoticeDisabled) && d.Wants(postrider.NoticeReplay)
			}, "Unsubscribe", "Abbestellen",
		},
		{
			postrider.DestinationLink{Action: postrider.LinkUnsubscribe, Kind: postrider.AllKinds},
			"",
			func(d postrider.Destination) bool { return !d.Wants(postrider.NoticeReplay) }, "about all messages", "alle Nachrichten",
		},
	} {
		w := newWorld(t, web.Options{})
		id, path := w.linked(tt.link)
		asked := w.see("", path)
		if tt.done(w.stateOf(id)) || !strings.Contains(asked.html, "<form") || !strings.Contains(asked.html, tt.text) ||
			!strings.Contains(asked.html, tt.inLanguage) {
			t.Errorf("GET %s acts, or asks\n%s", tt.link.Action, asked.html)
		}
		if strings.Contains(asked.html, "<script>alert") {
			t.Errorf("the page has the text of others:\n%s", asked.html)
		}
		english := w.as("", "GET "+path, nil, &http.Cookie{Name: "postrider-language", Value: "en"})
		if !strings.Contains(english.html, tt.inEnglish) {
			t.Errorf("in English the page is\n%s", english.html)
		}
		if head := w.as("", "HEAD "+path, nil); head.status != http.StatusOK || tt.done(w.stateOf(id)) {
			t.Errorf("HEAD = %d, and acts", head.status)
		}
		for range 2 {
			if did := w.as("", "POST "+path, nil); did.status != http.StatusOK || !tt.done(w.stateOf(id)) || strings.Contains(did.html, "<form") {
				t.Errorf("POST = %d %+v\n%s", did.status, w.stateOf(id), did.html)
			}
		}
		if gone := w.as("", "POST "+strings.Replace(path, "signed", "forged", 1), nil); gone.status != http.StatusGone {
			t.Errorf("a link that was changed = %d, want 410", gone.status)
		}
	}
}

// A mail provider has no session, no cookie and no Origin, and may send the body of RFC 8058
// as a form of either kind.
func TestAMailProviderUnsubscribesByOneClick(t *testing.T) {
	t.Parallel()
	for media, body := range map[string]string{
		"application/x-www-form-urlencoded":     "List-Unsubscribe=One-Click",
		"multipart/form-data; boundary=\"x y\"": "--x y\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x y--\r\n",
	} {
		w := newWorld(t, web.Options{})
		id, path := w.linked(postrider.DestinationLink{Action: postrider.LinkUnsubscribe, Kind: postrider.AllKinds})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		if got := w.send(r); got.status != http.StatusOK || w.stateOf(id).Wants(postrider.NoticeReplay) {
			t.Errorf("%s = %d", media, got.status)
		}
	}
}
