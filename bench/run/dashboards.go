package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

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
// overview again when the stream says that something has changed.
func watch(pages int, stream string, lasts time.Duration) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		ctx, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx)
		for i := range pages {
			group.Go(func() error { return watchOne(ctx, w.browsers[i/streamsOf], w.nodes[0].URL()+"/dashboard", stream) })
		}
		return group.Wait()
	}
}

// watchOne keeps one page open until ctx ends.
func watchOne(ctx context.Context, browser *http.Client, page, path string) error {
	stream, err := open(ctx, browser, page+path)
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
		body, err := open(ctx, browser, page)
		if err == nil {
			_, err = io.Copy(io.Discard, body)
			body.Close()
		}
		if err != nil && ctx.Err() == nil {
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
