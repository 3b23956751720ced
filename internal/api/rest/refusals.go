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

// refusals keeps the log small while the server refuses nearly everything, for example because
// the disk of the store is full: the first refusal of a kind has a line of its own, and those of
// each second after it one line together.
type refusals struct {
	log *slog.Logger

	mu sync.Mutex
	// How many refusals the last line of a kind did not count. No entry: none was refused in
	// the last second.
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

// first reports whether a refusal is the first of its kind, so that it gets its own line.
// Others are counted.
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
	ctx = context.WithoutCancel(ctx) // the request ends before its second
	time.AfterFunc(refusalsEvery, func() { r.tell(ctx, kind) })
	return true
}

// tell writes the line of the last second, until a second passes without a refusal.
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
