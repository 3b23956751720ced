package storetest

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// jobPlay is a replay job of a history, as the node that has leased it knows it.
type jobPlay struct {
	job     postrider.ReplayJob // the job as last claimed, with the last stored position
	token   postrider.Token     // token of the last claim; zero: never claimed
	found   []store.ReplayItem  // matches after the cursor; they may have been resolved since
	foundTo store.ReplayMatches // the result that found is from, without its Items
	last    store.ReplayChunk   // the last chunk that was stored

	set     map[postrider.DeliveryID]bool // the deliveries that existed when the job was created
	matches map[postrider.DeliveryID]bool // the matches of stored chunks
}

// createReplayJob creates a job of one account, with a CreatedAt in the future. Which deliveries
// have ended by CreatedAt would depend on the clocks of two stores. So only ids fix the set of
// the job.
func (h *history) createReplayJob() {
	if len(h.replayJobs) == 4 {
		return
	}
	e := pick(h, "endpoint", h.endpoints...)
	id := store.NewID[postrider.ReplayID](h.ids)
	job := postrider.ReplayJob{
		ID: id, CreatedAt: id.Time().Add(24 * time.Hour), PerSecond: 10, By: "support", Note: "mended", Status: postrider.ReplayRunning,
		Action: pick(h, "action", postrider.ActionReplay, postrider.ActionReplay, postrider.ActionDiscard),
		Filter: postrider.ReplayFilter{Account: e.Account, Endpoint: pick(h, "only endpoint", postrider.EndpointID{}, e.ID)},
	}
	job.Filter.Statuses = pick(h, "statuses", postrider.ReplayStatuses, []postrider.Status{postrider.Dead, postrider.Skipped})
	if job.Action == postrider.ActionDiscard {
		job.Filter.Statuses = []postrider.Status{postrider.Dead}
	}
	both(h, "put replay job", only(func(s store.Store) error { return s.PutReplayJob(h.Context(), job) }))
	p := &jobPlay{job: job, set: map[postrider.DeliveryID]bool{}, matches: map[postrider.DeliveryID]bool{}}
	for _, d := range h.deliveries(e.Account) {
		p.set[d.ID] = true
	}
	h.replayJobs = append(h.replayJobs, p)
}

// runReplayJob claims jobs, or stores the next chunk of one. Other histories may have left jobs
// in the store under test.
func (h *history) runReplayJob() {
	var claimed []*jobPlay
	for _, p := range h.replayJobs {
		if p.token != 0 {
			claimed = append(claimed, p)
		}
	}
	if len(claimed) > 0 && rapid.IntRange(0, 3).Draw(h.T, "claim jobs") > 0 {
		h.replayChunk(pick(h, "job", claimed...))
		return
	}
	q := store.ClaimReplayJobs{Max: 1000, Token: h.token(), Lease: long}
	jobs, _ := both(h, "claim replay jobs", func(s store.Store) ([]postrider.ReplayJob, error) {
		jobs, err := s.ClaimReplayJobs(h.Context(), q)
		return slices.DeleteFunc(jobs, func(j postrider.ReplayJob) bool { return !slices.Contains(h.accounts, j.Filter.Account) }), err
	})
	for _, job := range jobs {
		for _, p := range h.replayJobs {
			if p.job.ID == job.ID {
				p.job, p.token, p.found, p.foundTo = job, q.Token, nil, store.ReplayMatches{}
			}
		}
	}
}

// replayChunk stores a chunk with some of the next matches. It may instead repeat the last chunk,
// or send one that is fenced.
func (h *history) replayChunk(p *jobPlay) {
	kind := h.upTo("kind of chunk", 8)
	if kind == 1 && p.last.Job != (postrider.ReplayID{}) {
		both(h, "repeat replay chunk", only(func(s store.Store) error { return s.ReplayChunk(h.Context(), p.last) }))
		return
	}
	if len(p.found) == 0 && !p.foundTo.Done {
		p.foundTo, _ = both(h, "matches", func(s store.Store) (store.ReplayMatches, error) {
			return store.FindReplayMatches(h.Context(), s, p.job)
		})
		p.found = p.foundTo.Items
	}
	n := rapid.IntRange(0, len(p.found)).Draw(h.T, "matches")
	c := store.ReplayChunk{Job: p.job.ID, Token: p.token, From: p.job.ReplayPosition, To: p.job.ReplayPosition, Lease: long}
	for _, item := range p.found[:n] {
		item.ID, item.Expiry, item.Ordered = store.NewID[postrider.DeliveryID](h.ids), pick(h, "expiry", long, long, 0), h.ordered[item.Match]
		c.Items, c.To.Cursor = append(c.Items, item), item.Match
	}
	if n == len(p.found) {
		c.To.Cursor = p.foundTo.To
		c.End = pick(h, "end", "", postrider.ReplayDone)
	}
	if rapid.IntRange(0, 3).Draw(h.T, "hold") == 3 {
		c.To.Held = maps.Clone(c.To.Held)
		if c.To.Held == nil {
			c.To.Held = map[postrider.EndpointID]postrider.DeliveryID{}
		}
		c.To.Held[h.endpoints[0].ID] = c.To.Cursor
	}
	switch kind {
	case 2:
		c.Token = h.token()
	case 3:
		c.From.Cursor[15]++
	}
	_, ok := both(h, "replay chunk", only(func(s store.Store) error { return s.ReplayChunk(h.Context(), c) }))
	if !ok {
		return
	}
	for _, item := range c.Items {
		if p.matches[item.Match] {
			h.Fatalf("delivery %s is in two chunks of %s", item.Match, p.job.ID)
		}
		p.matches[item.Match] = true
		if item.Ordered != "" {
			h.ordered[item.ID] = item.Ordered
		}
	}
	p.job.ReplayPosition, p.found, p.last = c.To, p.found[n:], c
}

// setReplayJob pauses, resumes or cancels a job, for an account that may or may not be that of
// the job.
func (h *history) setReplayJob() {
	if len(h.replayJobs) == 0 {
		return
	}
	r := store.SetReplayJob{
		ID:      pick(h, "job", h.replayJobs...).job.ID,
		Account: pick(h, "account", slices.Concat(h.accounts, make([]postrider.AccountID, 4))...),
		Status:  pick(h, "status", postrider.ReplayPaused, postrider.ReplayRunning, postrider.ReplayRunning, postrider.ReplayCancelled),
	}
	both(h, "set replay job", only(func(s store.Store) error { return s.SetReplayJob(h.Context(), r) }))
}

// lookAtReplayJobs reads the jobs and their deliveries. Each match must have exactly one
// delivery, unless it was skipped, and no other delivery may have a new one.
func (h *history) lookAtReplayJobs(p store.Paging) {
	h.Helper()
	for _, account := range h.accounts {
		agree(h, "replay jobs", p, func(s store.Store, p store.Paging) (store.Page[postrider.ReplayJob], error) {
			return s.ReplayJobs(h.Context(), store.ReplayJobQuery{Account: account, Paging: p})
		})
	}
	for _, play := range h.replayJobs {
		id := play.job.ID
		jobs := agree(h, "replay job", p, func(s store.Store, p store.Paging) (store.Page[postrider.ReplayJob], error) {
			return s.ReplayJobs(h.Context(), store.ReplayJobQuery{ID: id, Paging: p})
		})
		both(h, "pending replays", func(s store.Store) (map[postrider.EndpointID]int, error) { return s.ReplaysPending(h.Context(), id) })
		made := agree(h, "deliveries of a replay job", p, func(s store.Store, p store.Paging) (store.Page[postrider.Delivery], error) {
			return s.Deliveries(h.Context(), store.DeliveryQuery{ReplayJob: id, Paging: p})
		})
		replayed := map[postrider.DeliveryID]bool{}
		for _, d := range made {
			if match := d.ReplayedFrom; replayed[match] || !play.set[match] || !play.matches[match] {
				h.Fatalf("job %s replays %s, which it has replayed before or never matched", id, match)
			}
			replayed[d.ReplayedFrom] = true
		}
		if job := jobs[0]; job.Matched() != len(play.matches) || job.Action == postrider.ActionReplay && job.Handled != len(made) {
			h.Fatalf("job %+v has %d deliveries and %d matches", job, len(made), len(play.matches))
		}
	}
}
