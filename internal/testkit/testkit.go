// Package testkit has the outside world for tests. It consists of real sockets and real databases,
// without mocks.
//
//   - [Receiver] is a webhook receiver that records its requests and answers as
//     a test says.
//   - [Hostiles] lists the ways in which receivers, their TLS and their DNS
//     misbehave, and the outcomes that a sender must record. A [HostileRig] starts
//     such receivers, with or without a test.
//   - [CA] issues certificates, good and bad ones.
//
// Every helper gets a testing.TB and fails that test itself. Its listeners, connections and
// goroutines end with the test. The helpers listen only on the loopback interface.
//
// Production code does not import this package.
package testkit

import (
	"context"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// Patience is how long a helper waits for an event before it fails the test. It is long because
// machines under test are slow; a test that passes never waits that long.
const Patience = 30 * time.Second

// Eventually waits until the condition holds. If it does not hold within Patience, the test fails.
// what names the event in the failure.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("%s: did not happen in %v", what, Patience)
		}
	}
}

// Raced reports whether the race detector is on, which makes some tests ten times slower.
func Raced() bool {
	build, _ := debug.ReadBuildInfo()
	return build != nil && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
