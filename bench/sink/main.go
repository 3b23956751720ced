// Command sink is a webhook receiver for benchmarks: it counts what arrives and
// measures how long each delivery took since its event was published.
//
//	sink -listen 127.0.0.1:7000
//
// The path of a request is its class: http://127.0.0.1:7000/healthy counts as
// healthy. Every class is answered 204 at once until it is told otherwise.
// What begins with /-/ is the control, which answers in JSON:
//
//	/-/count?class=C    how many arrived, and how many are not answered yet
//	/-/stats?class=C    that, with percentiles of the latency
//	/-/answer?class=C&status=500&after=10s     how to answer from now on
//	/-/answer?class=C&never=true               not at all
//	/-/mark             the load has ended: what comes now was late
//	/-/reset            forget the numbers, keep the answers
//
// The latency is by the timestamp of the envelope. Listening on 0.0.0.0 makes
// the sink reachable at every 127.x.y.z, as many hosts; whoever comes from
// elsewhere is refused.
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
