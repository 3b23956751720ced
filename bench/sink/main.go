// Command sink is a webhook receiver for benchmarks. It counts requests, and measures how long each
// delivery took since its event was published.
//
//	sink -listen 127.0.0.1:7000
//
// The path of a request is its class: http://127.0.0.1:7000/healthy counts for the class healthy.
// By default every class is answered with 204 at once. Paths that begin with /-/ control the sink,
// which answers them in JSON:
//
//	/-/count?class=C    how many requests arrived, and how many are not answered yet
//	/-/stats?class=C    the same, with percentiles of the latency
//	/-/answer?class=C&status=500&after=10s     how to answer from now on
//	/-/answer?class=C&never=true               do not answer from now on
//	/-/mark             the load has ended: later requests are late
//	/-/reset            set the numbers to zero, keep the answers
//
// The latency counts from the timestamp of the envelope. If the sink listens on 0.0.0.0, it is
// reachable at every 127.x.y.z, which look like many hosts. It refuses connections from outside the
// loopback interface.
//
// It shares no code with the server, so that a mistake in one does not hide a mistake in the other.
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
	distinct := flag.Bool("distinct", false, "count the different events of each class too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *distinct); err != nil {
		fmt.Fprintln(os.Stderr, "sink:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string, distinct bool) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	s := &sink{distinct: distinct, classes: map[string]*class{}, conns: map[net.Conn]struct{}{}}
	return s.Run(ctx, listener)
}
