package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Sink is a running bench/sink.
type Sink struct {
	*Process

	address string
	port    string
}

// SinkStats is what a sink has received for a class since its last reset.
type SinkStats struct {
	Count    int64     `json:"count"`
	Distinct int64     `json:"distinct"` // distinct events; 0 if the sink does not count them
	Open     int64     `json:"open"`     // received requests that are not answered yet
	FirstAt  time.Time `json:"first_at"`
	LastAt   time.Time `json:"last_at"`
	P50      int64     `json:"p50_us"` // times from creation to arrival
	P95      int64     `json:"p95_us"`
	P99      int64     `json:"p99_us"`
	Longest  int64     `json:"longest_us"`
	// Again is the longest time of an event that had arrived before; 0 if the sink does not count
	// events.
	Again  int64 `json:"again_us"`
	Oldest int64 `json:"oldest_us"` // oldest age, at the mark, of events that arrived after it
}

// Answer says how a sink answers a class. The zero value is 204 at once.
type Answer struct {
	Status int
	After  time.Duration
	Never  bool
}

// StartSink starts bench/sink, which must be among the programs of [Open]. A sink that counts
// distinct events takes more memory, and a little more CPU.
func (l *Lab) StartSink(ctx context.Context, distinct bool) (*Sink, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("start the sink: %w", err)
	}
	p, err := l.Start(ctx, "sink", nil, l.Program("sink"), "-listen", "0.0.0.0:"+port, "-distinct="+strconv.FormatBool(distinct))
	if err != nil {
		return nil, err
	}
	s := &Sink{Process: p, address: address, port: port}
	deadline := time.Now().Add(10 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err = s.Count(ctx, "none"); err == nil {
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

// Port returns the port of the sink. The sink listens on it at every address 127.x.y.z.
func (s *Sink) Port() string { return s.port }

// Stats returns what the sink has received for a class since its last reset.
func (s *Sink) Stats(ctx context.Context, class string) (SinkStats, error) {
	return s.ask(ctx, "stats?class="+url.QueryEscape(class))
}

// Count does what [Sink.Stats] does, but without the percentiles, so it costs the sink nothing.
func (s *Sink) Count(ctx context.Context, class string) (SinkStats, error) {
	return s.ask(ctx, "count?class="+url.QueryEscape(class))
}

// Answer sets how the sink answers a class from now on.
func (s *Sink) Answer(ctx context.Context, class string, a Answer) error {
	query := url.Values{"class": {class}, "after": {a.After.String()}, "never": {strconv.FormatBool(a.Never)}}
	if a.Status != 0 {
		query.Set("status", strconv.Itoa(a.Status))
	}
	_, err := s.ask(ctx, "answer?"+query.Encode())
	return err
}

// Mark tells the sink that the load has ended.
func (s *Sink) Mark(ctx context.Context) error {
	_, err := s.ask(ctx, "mark")
	return err
}

// Reset sets all counts of the sink to zero.
func (s *Sink) Reset(ctx context.Context) error {
	_, err := s.ask(ctx, "reset")
	return err
}

func (s *Sink) ask(ctx context.Context, question string) (SinkStats, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/-/"+question, nil)
	if err != nil {
		return SinkStats{}, fmt.Errorf("ask the sink: %w", err)
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(request)
	if err != nil {
		return SinkStats{}, fmt.Errorf("ask the sink: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return SinkStats{}, fmt.Errorf("ask the sink: %s: %s", question, answer.Status)
	}
	var stats SinkStats
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		return SinkStats{}, fmt.Errorf("ask the sink: %w", err)
	}
	return stats, nil
}

// Load has the parameters of bench/load.
type Load struct {
	Targets []string // host:port of each node
	Key     string
	Account string
	// Accounts is the number of accounts that get the events in turn. Their names are Account and a number from
	// 0 on. 0: only Account itself.
	Accounts int
	// Raw is the path of a sink that gets the requests instead of a server. Empty: a server gets
	// them.
	Raw         string
	Std         bool   // use net/http's client
	Prefix      string // of the event types
	Types       int
	Connections int
	Rate        float64
	Count       int64
	Duration    time.Duration
	Size        int
	Batch       int // events of a publish; 0: one
	Keyed       bool
	End         <-chan struct{} // the load ends early when it is closed; nil: it does not
}

// LoadStats is the result of a load.
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

// RunLoad runs bench/load and waits for its end.
func (l *Lab) RunLoad(ctx context.Context, load Load) (LoadStats, error) {
	var out bytes.Buffer
	p, err := l.Start(ctx, "load", &out, l.Program("load"),
		"-target", strings.Join(load.Targets, ","), "-account", load.Account, "-accounts", strconv.Itoa(load.Accounts), "-raw", load.Raw,
		"-std="+strconv.FormatBool(load.Std), "-keyed="+strconv.FormatBool(load.Keyed), "-prefix", load.Prefix,
		"-types", strconv.Itoa(max(1, load.Types)), "-connections", strconv.Itoa(load.Connections),
		"-rate", strconv.FormatFloat(load.Rate, 'g', -1, 64), "-count", strconv.FormatInt(load.Count, 10),
		"-duration", load.Duration.String(), "-size", strconv.Itoa(load.Size),
		"-batch", strconv.Itoa(max(1, load.Batch)), "-key", load.Key)
	if err != nil {
		return LoadStats{}, err
	}
	if err := p.waitOr(load.End, load.Duration+time.Minute); err != nil {
		return LoadStats{}, err
	}
	var stats LoadStats
	if err := json.Unmarshal(out.Bytes(), &stats); err != nil {
		return LoadStats{}, fmt.Errorf("read what load prints: %w", err)
	}
	stats.Usage, err = p.Usage()
	return stats, err
}
