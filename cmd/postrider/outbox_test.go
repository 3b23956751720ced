package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/postrider/postrider/internal/testkit"
)

// TestOutboxScripts runs the scripts of the commands outbox. PRODUCER is the URL of an empty database, and
// PSQL the client of PostgreSQL.
func TestOutboxScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(testscript.Params{
		Dir: "testdata/outbox",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PRODUCER", testkit.Postgres(t, nil))
			env.Setenv("PSQL", testkit.SharedCluster(t).Bin("psql"))
			return nil
		},
	}))
}
