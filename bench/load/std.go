package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// std posts with net/http, as a program would that was not made for speed. All connections share
// one client.
type std struct {
	plan   *plan
	turn   int // index of the target, modulo their number
	client *http.Client
}

func newClient(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}, Timeout: answerTime}
}

func (s *std) post(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	url := "http://" + s.plan.targets[s.turn%len(s.plan.targets)] + s.plan.path()
	// A request that is under way when the time is over is completed, as in conn.
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.plan.key)
	request.Header.Set("Content-Type", "application/json")
	reply, err := s.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	return reply.StatusCode, answer, err
}

func (s *std) next() { s.turn++ }

func (s *std) close() { s.client.CloseIdleConnections() }
