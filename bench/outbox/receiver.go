package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
)

// receiver gets the webhooks and keeps the ledger of them.
type receiver struct {
	url       string
	misbehave atomic.Bool // refuse one request in 50
	server    *http.Server
	serving   sync.WaitGroup

	mu       sync.Mutex
	accepted []arrival // in their order
	faults   []string
}

// arrival is a webhook that the receiver accepted.
type arrival struct {
	order int64
	event postrider.EventID
	at    time.Time
}

func startReceiver(ctx context.Context) (*receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start receiver: %w", err)
	}
	r := &receiver{url: "http://" + listener.Addr().String()}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	r.serving.Go(func() { _ = r.server.Serve(listener) }) // until close
	return r, nil
}

func (r *receiver) close() error {
	err := r.server.Close()
	r.serving.Wait()
	return err
}

// ServeHTTP accepts a webhook. It counts as accepted even if the server has died before it could read the answer.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var envelope struct {
		ID   postrider.EventID `json:"id"`
		Data struct {
			N int64 `json:"n"`
		} `json:"data"`
	}
	err := json.NewDecoder(request.Body).Decode(&envelope)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && request.Context().Err() == nil:
		r.faults = append(r.faults, err.Error())
		w.WriteHeader(http.StatusBadRequest)
	case err != nil: // the request was cut before its body was read
		w.WriteHeader(http.StatusBadRequest)
	case r.misbehave.Load() && rand.IntN(50) == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		r.accepted = append(r.accepted, arrival{envelope.Data.N, envelope.ID, time.Now()})
		w.WriteHeader(http.StatusNoContent)
	}
}

// received returns how many webhooks were accepted.
func (r *receiver) received() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.accepted)
}
