// Command sink is a webhook receiver for benchmarks: it counts what arrives,
// measures how long each delivery took since its event was published, and
// answers 204.
//
//	sink -listen 127.0.0.1:7000
//
// A path says how to answer: /delay/250ms after a while, /hang never, any other
// at once. GET /stats returns the count, the times of the first and last
// arrival, and percentiles of the latency, by the timestamp of the envelope;
// POST /reset forgets them.
//
// It shares no code with the server, so that a mistake in one does not hide a
// mistake in the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	address := flag.String("listen", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		fmt.Fprintln(os.Stderr, "sink:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return (&sink{conns: map[net.Conn]struct{}{}}).Run(ctx, listener)
}
