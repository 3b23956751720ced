package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Plain runs the calling test once more, in a process without the race detector, and
// returns true when it has passed there. Where nothing watches for races it returns false,
// and the test does its work. The test fails where the process does.
//
// It is for long tests of one goroutine: they cannot race, and the detector's price is
// tenfold.
func Plain(tb testing.TB) (passed bool) {
	tb.Helper()
	if !Raced() {
		return false
	}
	program, err := plainProgram()
	if err != nil {
		tb.Fatalf("build the test's own program: %v", err)
	}
	output, err := exec.CommandContext(tb.Context(), program, "-test.run=^"+tb.Name()+"$", "-test.timeout=10m").CombinedOutput()
	if err != nil {
		tb.Fatalf("run without the race detector: %v\n%s", err, output)
	}
	return true
}

// plainProgram returns the path of this test's program, or, where that has the
// race detector, of one without, which it builds once.
var plainProgram = sync.OnceValues(func() (string, error) {
	own, err := os.Executable()
	if err != nil || !Raced() {
		return own, err
	}
	file := own + ".plain" // beside it, in what go test removes
	output, err := exec.Command("go", "test", "-c", "-o", file, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, output)
	}
	return file, nil
})
