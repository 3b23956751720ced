package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/config"
)

// readyCmd is the command ready. It is the health check for a container that contains no other
// program. It reads the settings of the server in the same container.
type readyCmd struct {
	ConfigFile string `name:"config" setting:"" placeholder:"FILE" help:"YAML file with the settings of the server. Default: none."`
	OpsListen  string `name:"ops-listen" setting:"" default:"127.0.0.1:9090" help:"Address of the server's listener for operators, host:port."`
}

// Run exits with 0 if the server should get traffic, and with 1 otherwise.
func (c *readyCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(func(func(string) string) error { return nil }); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(c.OpsListen)
	if err != nil {
		return misused("--ops-listen: must be host:port")
	}
	// If the listener is bound to all addresses, the request goes to 127.0.0.1.
	if ip := net.ParseIP(cmp.Or(host, "::")); ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	warnings, err := client.Ready(ctx, "http://"+net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, strings.Join(append([]string{"the server is ready"}, warnings...), "\n"))
	return err
}
