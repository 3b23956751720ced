package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// reader reads pages with an operator's session.
type reader struct {
	http  *http.Client
	base  string
	pages []page
}

// page is a page of the dashboard.
type page struct{ name, path string }

// login logs in and returns a reader of all pages.
func (h *history) login(ctx context.Context) (*reader, error) {
	browser, err := h.server.Login(ctx)
	if err != nil {
		return nil, err
	}
	browser.Timeout = time.Minute
	return &reader{http: browser, base: h.server.URL(), pages: h.pages()}, nil
}

// pages returns the pages. Their paths have the ids of the first rows of the history.
func (h *history) pages() []page {
	endpoint, delivery, event := h.delivered.Endpoint.String(), h.delivered.ID.String(), h.delivered.Event.String()
	return []page{
		{"overview", "/dashboard"},
		{"overview of 7 days", "/dashboard?range=7d"},
		{"overview of a year", "/dashboard?range=1y"},
		{"endpoints", "/dashboard/endpoints"},
		{"one endpoint", "/dashboard/endpoints/" + endpoint},
		{"one endpoint with an open circuit", "/dashboard/endpoints/" + h.dead.Endpoint.String()},
		{"one endpoint with 50,000 pending", "/dashboard/endpoints/" + h.pending.Endpoint.String()},
		{"deliveries", "/dashboard/deliveries"},
		{"dead deliveries", "/dashboard/deliveries?status=dead"},
		{"skipped deliveries", "/dashboard/deliveries?status=skipped"},
		{"one delivery", "/dashboard/deliveries/" + delivery},
		{"one dead delivery", "/dashboard/deliveries/" + h.dead.ID.String()},
		{"events", "/dashboard/events"},
		{"one event", "/dashboard/events/" + event},
		{"dead letters", "/dashboard/dead-letters"},
		{"accounts", "/dashboard/accounts"},
		{"one account", "/dashboard/accounts/" + h.delivered.Account.String()},
		{"event types", "/dashboard/event-types"},
		{"replays", "/dashboard/replays"},
		{"notices", "/dashboard/notices"},
		{"keys", "/dashboard/api-keys"},
		{"audit", "/dashboard/audit"},
		{"sessions", "/dashboard/sessions"},
		{"live tail", "/dashboard/tail"},
		{"search by id", "/dashboard/search?q=" + delivery},
		{"search by account", "/dashboard/search?q=customer-7"},
		{"search in vain", "/dashboard/search?q=nothing-has-this-name"},
	}
}

// report reads every page and prints a line for each. After a page that fails or is too slow it
// continues with the next page.
func (r *reader) report(ctx context.Context, o options) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "page\tp50 ms\tp95 ms\tmax ms\tKB")
	var errs []error
	for _, p := range r.pages {
		times, size, err := r.read(ctx, p, o.reads)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		p50, p95 := times[len(times)/2], times[len(times)*95/100]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.1f\n", p.name, ms(p50), ms(p95), ms(times[len(times)-1]), float64(size)/1024)
		if p95 > o.within {
			errs = append(errs, fmt.Errorf("%s: the 95th percentile is %s ms", p.name, ms(p95)))
		}
	}
	return errors.Join(append(errs, table.Flush())...)
}

// read reads a page several times. It returns the sorted times, and the size of the page.
func (r *reader) read(ctx context.Context, p page, reads int) (times []time.Duration, size int64, err error) {
	for range reads {
		began := time.Now()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+p.path, http.NoBody)
		if err != nil {
			return nil, 0, fmt.Errorf("read: %w", err)
		}
		response, err := r.http.Do(request)
		if err != nil {
			return nil, 0, fmt.Errorf("read: %w", err)
		}
		size, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", p.path, err)
		}
		if response.StatusCode != http.StatusOK {
			return nil, 0, fmt.Errorf("read %s: %s", p.path, response.Status)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times, size, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
