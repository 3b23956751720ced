// Package configtest reads settings in tests, as the server reads them.
package configtest

import (
	"testing"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/internal/config"
)

// Parse returns the settings of a server with these variables of the environment and arguments, and
// where each comes from. A setting that cannot be read ends the test.
func Parse(t testing.TB, env map[string]string, args ...string) (config.Config, *config.Sources) {
	t.Helper()
	var c struct {
		config.Config `embed:""`
	}
	var environ []string
	for name, text := range env {
		environ = append(environ, name+"="+text)
	}
	sources := config.NewSources(environ)
	parser, err := kong.New(&c, kong.Resolvers(sources))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c.Config, sources
}
