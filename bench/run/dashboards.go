package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// streamsOf is how many streams one session opens: the most that the server allows.
const streamsOf = 8

// logIn makes the sessions for that many pages, before the measurement.
func logIn(pages int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		for len(w.browsers)*streamsOf < pages {
			browser, err := w.nodes[0].Login(ctx)
			if err != nil {
				return err
			}
			w.browsers = append(w.browsers, browser)
		}
		return nil
	}
}

// watch keeps that many pages open during the phase. The path of their stream is relative to
// /dashboard. Each does what the script of the page does: it reads the stream, and reads the
// overview again when the stream says that something has changed. The work is these reads.
func watch(pages int, stream string) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		ctx, cancel := context.WithTimeout(ctx, r.phase.lasts)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx)
		for i := range pages {
			page := page{browser: w.browsers[i/streamsOf], url: w.nodes[0].URL() + "/dashboard"}
			group.Go(func() error { return page.watch(ctx, stream, &r.work) })
		}
		return group.Wait()
	}
}

// page is an open page of the dashboard.
type page struct {
	browser *http.Client // with a session
	url     string
}

// watch keeps the page open until ctx ends. It counts how often it has read the page again.
func (p page) watch(ctx context.Context, path string, reloads *atomic.Int64) error {
	stream, err := open(ctx, p.browser, p.url+path)
	if err != nil {
		return err
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20) // a message of the tail is one line, even with many rows
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "event: changed") {
			continue
		}
		body, err := open(ctx, p.browser, p.url)
		if err == nil {
			_, err = io.Copy(io.Discard, body)
			body.Close()
		}
		switch {
		case err == nil:
			reloads.Add(1)
		case ctx.Err() == nil:
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errors.New("the stream "+path+" ended"), lines.Err())
}

// open requests a URL and returns the body of the response.
func open(ctx context.Context, browser *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	response, err := browser.Do(request)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("open %s: %s", url, response.Status)
	}
	return response.Body, nil
}
