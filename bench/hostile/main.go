// Command hostile measures what hostile receivers cost a sender: memory, goroutines, file
// descriptors, and time beyond deadlines.
//
//	go run ./bench/hostile -out bench/HOSTILE.md
//
// For each misbehaviour of internal/testkit it starts -receivers receivers. Each receiver gets
// -requests attempts from a real Egress. The receivers run in a process of their own, so that the
// measured process is only the sender. Receivers that hold a request until the deadline run at the
// same time as receivers that end it. The first kind gets -slots attempts at a time each, the
// second kind one. By default that makes 1,000 attempts in flight, about the maximum of a node.
//
// An attempt without an answer by its deadline counts as timed out, whatever the receiver does: on
// a machine that runs both sides some attempts time out. The program exits 1 if another attempt was
// not classified as it must be, or if a goal was missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	receivers int
	requests  int
	slots     int
	deadline  time.Duration
	budget    time.Duration
	settle    time.Duration
	limit     time.Duration
	only      string
	out       string
	serve     bool
}

func main() {
	var o options
	flag.IntVar(&o.receivers, "receivers", 200, "hostile receivers at once")
	flag.IntVar(&o.requests, "requests", 100, "attempts at each of them")
	flag.IntVar(&o.slots, "slots", 1, "attempts at a time at each that holds on")
	flag.DurationVar(&o.deadline, "deadline", time.Second, "of an attempt")
	flag.DurationVar(&o.budget, "budget", 280*time.Second,
		"shared by the misbehaviours: one that used up two shares starts no more attempts, after one of each slot")
	flag.DurationVar(&o.settle, "settle", time.Minute, "how long goroutines and files may take to be back")
	flag.DurationVar(&o.limit, "limit", 6*time.Minute, "give up after this long")
	flag.StringVar(&o.only, "only", "", "only misbehaviours of this group or name")
	flag.StringVar(&o.out, "out", "", "file for the report; empty: standard output")
	flag.BoolVar(&o.serve, "serve", false, "be the receivers (the program starts itself so)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	run := measure
	if o.serve {
		run = serve
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// measure runs the sender.
func measure(ctx context.Context, o options) (err error) {
	process, err := startReceivers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.close()) }()
	s, err := newSender(o, process)
	if err != nil {
		return err
	}
	defer s.egress.Close()
	before, err := readUsage()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := s.sendAll(ctx); err != nil {
		return err
	}
	after, took, err := settled(ctx, before, o.settle)
	if err != nil {
		return err
	}
	rep := report{
		opts: o, before: before, after: after,
		back: took, took: time.Since(started), rows: s.rows(),
	}
	return rep.write()
}
