package live

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

// tailPage is the data of the page of the live tail.
type tailPage struct {
	Filters page.Filters
	Faults  map[string]string
	Off     bool // this server has no streams
}

// showTail shows attempts while they are made. Without scripts the page links to the
// list of deliveries.
func (s *Streams) showTail(v *page.Visit) error {
	endpoint, _, err := v.EndpointFilter()
	p := tailPage{Off: s.From == nil, Filters: page.Filters{
		v.Choice("status", "delivery.status", "pending", "delivered", "dead"),
		v.Choice("outcome", "outcome", "accepted", "rejected", "gone", "throttled", "unreachable", "timed_out", "broken", "blocked", "lost"),
		v.TextFilter("event_type"), endpoint,
	}}
	p.Filters = append(p.Filters, v.AccountFilter()...)
	p.Faults = v.Faulty(err)
	return v.Show(page.View{Name: "live", Data: p, Refused: p.Faults != nil, Commands: []string{"deliveries list"}})
}

// A thousand people may watch the same attempts, and deliveries must not wait for the rendering.
// So an attempt is rendered once (see tail) for all streams that show the same row. In its turn
// (Streams.tails), at most once every tailEvery, a stream sends the newest tailRows rows, and the
// number of attempts that it leaves out.
const (
	tailRows  = 25
	tailEvery = time.Second
)

// tailKey has all values on which the rows of a stream depend. It includes the account of the
// person. So people of different accounts never share rows, and people of one account share none
// with people of all accounts.
type tailKey struct {
	watch   observe.Watch
	account postrider.AccountID // the only one that the person sees; zero: all
	who     page.Audience
	text    *text.Catalogue
	zone    string
}

// tails has the open tails by their keys.
type tails struct {
	mu sync.Mutex
	of map[tailKey]*tail
}

// tail has the rows of all streams with one key.
type tail struct {
	streams int        // guarded by tails.mu
	end     func()     // ends run and waits for it
	mu      sync.Mutex // guards rows and counts
	rows    [][]byte   // the newest tailRows, oldest first, each escaped for a string of JSON; only appended to
	counts  tailCounts // since the tail began
}

// tailCounts is a position in a tail.
type tailCounts struct {
	rows int
	lost int // attempts without a row
}

// sendTail sends the event "tail". It has rows of HTML for the attempts that the filters of the
// URL select, and the number of lost attempts.
func (s *Streams) sendTail(v *page.Visit) error {
	w, err := watch(v)
	if err != nil {
		return err
	}
	return s.send(v, w, (*stream).tail)
}

// tail is the source of streamTail.
func (s *stream) tail(ctx context.Context, w observe.Watch) (feed func()) {
	t, seen, leave := s.of.watched.join(s.Visit, s.of.From, w)
	return func() {
		defer leave()
		for sleep(ctx, tailEvery) {
			if _, now := t.since(seen); now == seen {
				continue
			}
			if s.of.tails.Wait(ctx) != nil || s.loggedOut(ctx) {
				return
			}
			rows, now := t.since(seen)
			lost := now.lost - seen.lost + now.rows - seen.rows - len(rows)
			parts := append([][]byte{[]byte(`event: tail
data: {"html":"`)}, rows...)
			if !s.send(ctx, append(parts, strconv.AppendInt([]byte(`","lost":`), int64(lost), 10), []byte("}\n\n"))...) {
				return
			}
			seen = now
		}
	}
}

// join returns the tail for the key of the visit, and the position from which the stream sends.
// In an existing tail that is the current position; in a new tail it is zero. leave ends the tail
// after its last stream has left.
func (all *tails) join(v *page.Visit, source Attempts, w observe.Watch) (t *tail, from tailCounts, leave func()) {
	key := tailKey{w, v.Caller.Account, v.Who, v.Text, v.Zone.String()}
	all.mu.Lock()
	defer all.mu.Unlock()
	t = all.of[key]
	if t == nil {
		t = beginTail(v, source, w)
		all.of[key] = t
	} else {
		_, from = t.since(from)
	}
	t.streams++
	return t, from, func() {
		all.mu.Lock()
		t.streams--
		last := t.streams == 0
		if last {
			delete(all.of, key)
		}
		all.mu.Unlock()
		if last {
			t.end()
		}
	}
}

// beginTail starts a tail. The tail may outlive the visit and its session. So it renders with a
// copy of the visit, which may read only what all watchers of the tail may read.
func beginTail(v *page.Visit, source Attempts, w observe.Watch) *tail {
	ctx, cancel := context.WithCancel(context.WithoutCancel(v.Request.Context()))
	var running sync.WaitGroup
	t := &tail{end: func() { cancel(); running.Wait() }}
	shown, next := v.Outlive("live tail"), source.Subscribe(ctx, w)
	running.Go(func() { t.run(ctx, shown, next) })
	return t
}

// run renders attempts until ctx ends.
func (t *tail) run(ctx context.Context, v *page.Visit, next func() ([]observe.Attempted, int, error)) {
	for {
		items, lost, err := next()
		if err != nil {
			return
		}
		v.Now = v.Site.Now() // the tail is older than the attempts
		left := max(0, len(items)-tailRows)
		rows, err := renderRows(ctx, v, items[left:])
		if err != nil {
			v.Site.Options.Log.ErrorContext(ctx, "rows of the live tail", "error", err)
		}
		t.mu.Lock()
		t.rows = append(t.rows, rows...)
		t.rows = t.rows[max(0, len(t.rows)-tailRows):]
		t.counts.rows += len(rows)
		t.counts.lost += lost + len(items) - len(rows)
		t.mu.Unlock()
	}
}

// since returns the newest rows that a stream has not sent, and the current position of the tail.
func (t *tail) since(seen tailCounts) (rows [][]byte, now tailCounts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[max(0, len(t.rows)-(t.counts.rows-seen.rows)):], t.counts
}

// renderRows renders one row for each attempt, escaped for a string of JSON.
func renderRows(ctx context.Context, v *page.Visit, items []observe.Attempted) (rows [][]byte, err error) {
	ids := make([]postrider.EndpointID, 0, len(items))
	for _, item := range items {
		ids = append(ids, item.Endpoint)
	}
	if err := v.NameEndpoints(ctx, ids); err != nil { // the rows then show ids
		v.Site.Options.Log.WarnContext(ctx, "names of the live tail", "error", err)
	}
	for n := range items {
		var row bytes.Buffer
		if err := v.RenderPart(&row, "tail-rows", items[n:n+1]); err != nil {
			return rows, err
		}
		text, err := json.Marshal(row.String())
		if err != nil {
			return rows, err
		}
		rows = append(rows, text[1:len(text)-1])
	}
	return rows, nil
}
