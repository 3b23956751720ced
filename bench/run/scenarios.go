package main

import "time"

// scenario is a shape of load. Endpoints subscribe to event types bench.t0,
// bench.t1, …, each to one, or all to bench.*.
type scenario struct {
	name        string
	endpoints   int
	fanOut      bool // every endpoint gets every event
	path        string
	concurrency int // of each endpoint
	connections int
	rate        float64 // events per second; 0: as fast as they are taken
	size        int     // bytes of data
	duration    time.Duration
}

var scenarios = []scenario{
	{name: "B1 one endpoint", endpoints: 1, path: "/ok", concurrency: 64, connections: 64, size: 1024},
	{name: "B2 100 endpoints, one each", endpoints: 100, path: "/ok", concurrency: 10, connections: 64, size: 1024},
	{name: "B3 one event to 100 endpoints", endpoints: 100, fanOut: true, path: "/ok", concurrency: 10, connections: 8, size: 1024},
	{name: "B4 50 events/s", endpoints: 1, path: "/ok", concurrency: 10, connections: 8, rate: 50, size: 1024},
}

func (s scenario) lasting(d time.Duration) scenario {
	s.duration = d
	return s
}

// types returns how many event types take turns.
func (s scenario) types() int {
	if s.fanOut {
		return 1
	}
	return s.endpoints
}

// matches returns how many endpoints an event matches.
func (s scenario) matches() int64 {
	if s.fanOut {
		return int64(s.endpoints)
	}
	return 1
}
