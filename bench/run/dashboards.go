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

// streamsOf is how many streams one session opens: as many as the server lets it.
const streamsOf = 8

// watch keeps so many dashboards open while the phase lasts. Each does what the script
// of the page does: it reads a stream, and reads the page again when the stream says that
// something has changed.
func watch(dashboards int, lasts time.Duration) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		server := w.nodes[0]
		ctx, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx)
		var browser *http.Client
		for i := range dashboards {
			if i%streamsOf == 0 {
				var err error
				if browser, err = server.Login(ctx); err != nil {
					return err
				}
			}
			session := browser
			group.Go(func() error { return watchOne(ctx, session, server.URL()+"/dashboard") })
		}
		return group.Wait()
	}
}

// watchOne keeps one dashboard open until ctx ends.
func watchOne(ctx context.Context, browser *http.Client, page string) error {
	stream, err := open(ctx, browser, page+"/live")
	if err != nil {
		return err
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
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
	return errors.Join(errors.New("the stream of a dashboard ended"), lines.Err())
}

// open reads a URL and returns its body.
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
