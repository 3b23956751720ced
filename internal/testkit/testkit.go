// Package testkit has what tests need of the world outside, made of real
// sockets and real databases and no mocks.
//
//   - [Receiver] is a webhook receiver that records its requests and answers as
//     a test says.
//   - [Hostiles] lists the ways in which receivers, their TLS and their DNS
//     misbehave, with what a sender must make of each. A [HostileRig] starts
//     those that do, with or without a test.
//   - [CA] issues certificates, good and bad ones.
//
// Everything is made with a testing.TB, fails that test by itself, and is gone
// when the test ends: listeners are closed, connections cut, goroutines waited
// for. Nothing listens anywhere but on the loopback interface.
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

// Patience is how long a helper waits for what must happen, before it fails
// the test. It is long because machines under test are slow; a test that
// passes never waits for it.
const Patience = 30 * time.Second

// Eventually waits until the condition holds, and fails the test when it does
// not come to hold. what says what was waited for.
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

// Raced reports whether the race detector watches, which makes some tests ten
// times slower.
func Raced() bool {
	build, _ := debug.ReadBuildInfo()
	return build != nil && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
