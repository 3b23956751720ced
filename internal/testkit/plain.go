package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Plain runs the calling test once more in a process without the race detector, and returns true if
// the test passes there. If this process has no race detector, Plain returns false, and the test
// does its work. The test fails if the process fails.
//
// Plain is for long tests of one goroutine: they cannot race, and the detector makes them ten times
// slower.
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

// plainProgram returns the path of this test's program. If that has the race detector, plainProgram
// builds one without it, once, and returns its path.
var plainProgram = sync.OnceValues(func() (string, error) {
	own, err := os.Executable()
	if err != nil || !Raced() {
		return own, err
	}
	file := own + ".plain" // in the same folder, which go test removes
	output, err := exec.Command("go", "test", "-c", "-o", file, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, output)
	}
	return file, nil
})
