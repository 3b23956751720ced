package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Sink is a running bench/sink.
type Sink struct {
	*Process

	address string
}

// SinkStats is what a sink has received since its last reset.
type SinkStats struct {
	Count   int64     `json:"count"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
	P50     int64     `json:"p50_us"` // from created to received
	P95     int64     `json:"p95_us"`
	P99     int64     `json:"p99_us"`
}

// StartSink starts bench/sink, which the lab was opened with.
func (l *Lab) StartSink(ctx context.Context) (*Sink, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.Start(ctx, "sink", nil, l.Program("sink"), "-listen", address)
	if err != nil {
		return nil, err
	}
	s := &Sink{Process: p, address: address}
	deadline := time.Now().Add(10 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err = s.Stats(ctx); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("wait for the sink: %w", err)
		}
		<-again.C
	}
}

// Address returns host:port of the sink.
func (s *Sink) Address() string { return s.address }

// Stats returns what the sink has received since its last reset.
func (s *Sink) Stats(ctx context.Context) (SinkStats, error) { return s.ask(ctx, "/stats") }

// Reset lets the sink start counting anew.
func (s *Sink) Reset(ctx context.Context) error {
	_, err := s.ask(ctx, "/reset")
	return err
}

func (s *Sink) ask(ctx context.Context, path string) (SinkStats, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		return SinkStats{}, fmt.Errorf("ask the sink: %w", err)
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(request)
	if err != nil {
		return SinkStats{}, fmt.Errorf("ask the sink: %w", err)
	}
	defer answer.Body.Close()
	var stats SinkStats
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		return SinkStats{}, fmt.Errorf("ask the sink: %w", err)
	}
	return stats, nil
}

// Load says what bench/load is to do.
type Load struct {
	Target      string // host:port
	Key         string
	Account     string
	Raw         string // not empty: the path of a sink, and no server
	Types       int
	Connections int
	Rate        float64
	Count       int64
	Duration    time.Duration
	Size        int
}

// LoadStats is what became of a load.
type LoadStats struct {
	Accepted int64     `json:"accepted"`
	Refused  int64     `json:"refused"`
	Broken   int64     `json:"broken"`
	FirstAt  time.Time `json:"first_at"`
	LastAt   time.Time `json:"last_at"`
	P50      int64     `json:"p50_us"`
	P99      int64     `json:"p99_us"`
	Usage    Usage     `json:"-"`
}

// Rate returns how many publishes were accepted per second.
func (s LoadStats) Rate() float64 { return float64(s.Accepted) / s.LastAt.Sub(s.FirstAt).Seconds() }

// RunLoad runs bench/load to its end.
func (l *Lab) RunLoad(ctx context.Context, load Load) (LoadStats, error) {
	var out bytes.Buffer
	p, err := l.Start(ctx, "load", &out, l.Program("load"),
		"-target", load.Target, "-account", load.Account, "-raw", load.Raw,
		"-types", strconv.Itoa(max(1, load.Types)), "-connections", strconv.Itoa(load.Connections),
		"-rate", strconv.FormatFloat(load.Rate, 'g', -1, 64), "-count", strconv.FormatInt(load.Count, 10),
		"-duration", load.Duration.String(), "-size", strconv.Itoa(load.Size), "-key", load.Key)
	if err != nil {
		return LoadStats{}, err
	}
	if err := p.Wait(load.Duration + time.Minute); err != nil {
		return LoadStats{}, err
	}
	var stats LoadStats
	if err := json.Unmarshal(out.Bytes(), &stats); err != nil {
		return LoadStats{}, fmt.Errorf("read what load prints: %w", err)
	}
	stats.Usage, err = p.Usage()
	return stats, err
}

// Address returns host:port of the server's API.
func (s *Server) Address() string { return s.address }
