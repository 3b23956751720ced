package rest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// refusalsEvery is the interval between two lines about refusals of one kind.
const refusalsEvery = time.Second

// refusals keeps the log small while the server refuses nearly all requests, for example because
// the disk of the store is full. The first refusal of a kind gets its own log line. After that, all
// refusals of the kind within a second share one line.
type refusals struct {
	log *slog.Logger

	mu sync.Mutex
	// untold has, by kind, the number of refusals since the last log line of the kind. A kind
	// without an entry had no refusal in the last second.
	untold map[refusal]int
}

// refusal is the kind of a refused request.
type refusal struct {
	route, code string
	class       string // the detail of its errorClass
	level       slog.Level
}

// refuses reports whether a status means that the same request may be accepted later.
func refuses(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// first reports whether a refusal gets its own log line, because it is the first of its kind.
// Otherwise first counts the refusal for the next shared line.
func (r *refusals) first(ctx context.Context, kind refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, told := r.untold[kind]; told {
		r.untold[kind]++
		return false
	}
	if r.untold == nil {
		r.untold = map[refusal]int{}
	}
	r.untold[kind] = 0
	ctx = context.WithoutCancel(ctx) // the request ends before the line is written
	time.AfterFunc(refusalsEvery, func() { r.tell(ctx, kind) })
	return true
}

// tell writes the line about the refusals of the last second. It repeats every second until a
// second passes without a refusal.
func (r *refusals) tell(ctx context.Context, kind refusal) {
	r.mu.Lock()
	n := r.untold[kind]
	if n > 0 {
		r.untold[kind] = 0
		time.AfterFunc(refusalsEvery, func() { r.tell(ctx, kind) })
	} else {
		delete(r.untold, kind)
	}
	r.mu.Unlock()
	if n > 0 {
		r.log.Log(ctx, kind.level, "more requests refused", "route", kind.route, "code", kind.code, "reason", kind.class, "requests", n)
	}
}
