package web

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// tailRoutes lists the page of the live tail, and the stream of its rows, which has the
// filters of the page's URL.
func tailRoutes() []route {
	return []route{
		{"GET /tail", everyone, showTail},
		{"GET /live/tail", everyone, streamTail},
	}
}

// tailPage is the data of the page of the live tail.
type tailPage struct {
	Filters filters
	Faults  map[string]string
	Off     bool // this server has no streams
}

// showTail shows attempts while they are made. Without scripts the page links to the
// list of deliveries.
func showTail(v *visit) error {
	endpoint, _, err := v.endpointFilter()
	p := tailPage{Off: v.h.Live == nil, Filters: filters{
		v.choice("status", "delivery.status", "pending", "delivered", "dead"),
		v.choice("outcome", "outcome", "accepted", "rejected", "gone", "throttled", "unreachable", "timed_out", "broken", "blocked", "lost"),
		v.textFilter("event_type"), endpoint,
	}}
	if v.who == operators {
		p.Filters = append(p.Filters, v.accountFilter())
	}
	status := 0
	if faults, refused := v.faulty(err); refused {
		p.Faults, status = faults, 422
	}
	return v.show(page{Name: "live", Data: p, Status: status, Commands: []string{"deliveries list"}})
}

// A thousand people may watch the same attempts, and deliveries must not wait for their
// rows. So an attempt is rendered once for all streams that show it in the same way (tail),
// and a stream sends the newest tailRows rows when it has its turn (streams.tails), at most
// once every tailEvery, and how many attempts it leaves out.
const (
	tailRows  = 25
	tailEvery = time.Second
)

// tailKey is all that the rows of a stream depend on. The account of the person is part of
// it, so a person of one account shares rows with no person of another, nor with one of all.
type tailKey struct {
	watch   observe.Watch
	account postrider.AccountID // the only one that the person sees; zero: all
	who     audience
	text    *catalogue
	zone    string
}

// tails has the tails that somebody watches.
type tails struct {
	mu sync.Mutex
	of map[tailKey]*tail
}

// tail has the rows of all streams with one key.
type tail struct {
	streams int        // guarded by tails.mu
	end     func()     // ends run and waits for it
	mu      sync.Mutex // guards what follows
	rows    [][]byte   // the newest tailRows, the oldest first, as they are inside a string of JSON; only appended to
	counts  tailCounts // since the tail began
}

// tailCounts is how far a stream has read a tail.
type tailCounts struct {
	rows int
	lost int // attempts without a row
}

// streamTail sends the event "tail" with rows of HTML for the attempts that the
// filters of the URL select, and how many were lost.
func streamTail(v *visit) error {
	w, err := v.watch()
	if err != nil {
		return err
	}
	return v.stream(w, (*stream).tail)
}

// tail is the source of streamTail.
func (s *stream) tail(ctx context.Context, w observe.Watch) (feed func()) {
	t, seen, leave := s.h.tails.join(s.visit, w)
	return func() {
		defer leave()
		for sleep(ctx, tailEvery) {
			if _, now := t.since(seen); now == seen {
				continue
			}
			if s.h.streams.tails.Wait(ctx) != nil || s.loggedOut(ctx) {
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

// join returns the tail of the visit's key, and the counts from which the stream sends: those
// of now, or zero for a tail that begins, whose first rows are the stream's too. leave ends
// the tail, if no other stream has joined.
func (all *tails) join(v *visit, w observe.Watch) (t *tail, from tailCounts, leave func()) {
	key := tailKey{w, v.session.Caller.Account, v.who, v.text, v.zone.String()}
	all.mu.Lock()
	defer all.mu.Unlock()
	t = all.of[key]
	if t == nil {
		t = all.begin(v, w)
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

// begin starts a tail. It may live longer than the visit and the session that it is for: it
// renders by a copy of the visit, and reads names as a caller who may read what all watchers
// of the tail may, and no more.
func (all *tails) begin(v *visit, w observe.Watch) *tail {
	ctx, cancel := context.WithCancel(context.WithoutCancel(v.r.Context()))
	var running sync.WaitGroup
	t := &tail{end: func() { cancel(); running.Wait() }}
	shown := *v
	shown.names = names{}
	shown.session.Caller = postrider.Caller{
		Name: "live tail", Account: v.session.Caller.Account, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}, Request: v.w.id,
	}
	shown.connect()
	next := v.h.Live.Subscribe(ctx, w)
	running.Go(func() { t.run(ctx, &shown, next) })
	return t
}

// run renders attempts until ctx ends.
func (t *tail) run(ctx context.Context, v *visit, next func() ([]observe.Attempted, int, error)) {
	for {
		items, lost, err := next()
		if err != nil {
			return
		}
		v.now = v.h.Now() // the tail is older than the attempts
		left := max(0, len(items)-tailRows)
		rows, err := v.tailRows(ctx, items[left:])
		if err != nil {
			v.h.opts.Log.ErrorContext(ctx, "rows of the live tail", "error", err)
		}
		t.mu.Lock()
		t.rows = append(t.rows, rows...)
		t.rows = t.rows[max(0, len(t.rows)-tailRows):]
		t.counts.rows += len(rows)
		t.counts.lost += lost + len(items) - len(rows)
		t.mu.Unlock()
	}
}

// since returns the newest rows that a stream has not seen, and how far the tail is.
func (t *tail) since(seen tailCounts) (rows [][]byte, now tailCounts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[max(0, len(t.rows)-(t.counts.rows-seen.rows)):], t.counts
}

// tailRows renders one row for each attempt, as it is inside a string of JSON.
func (v *visit) tailRows(ctx context.Context, items []observe.Attempted) (rows [][]byte, err error) {
	ids := make([]postrider.EndpointID, 0, len(items))
	for _, item := range items {
		ids = append(ids, item.Endpoint)
	}
	if err := v.nameEndpoints(ctx, ids); err != nil { // the rows then show ids
		v.h.opts.Log.WarnContext(ctx, "names of the live tail", "error", err)
	}
	v.calls.made = nil // a stream shows no calls, and may be long
	for n := range items {
		var row bytes.Buffer
		if err := v.h.pages.renderPart(&row, v, "tail-rows", items[n:n+1]); err != nil {
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
