package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// aloneEnv is set in a process that [Alone] started. Its value is the file for the report.
const aloneEnv = "POSTRIDER_TEST_ALONE"

// Alone runs the calling test once more, in a process with an empty network and mounts of its own,
// and returns the report that the process passed to [Report]. In that process Alone returns false,
// and the test does its work. env is added to the environment of the process.
//
// The process is built without the race detector, which would make it ten times slower. The test
// fails if the process fails or cannot be started. Starting it needs root, or the right to create
// user namespaces.
func Alone(tb testing.TB, env ...string) (report []byte, outside bool) {
	tb.Helper()
	if os.Getenv(aloneEnv) != "" {
		return nil, false
	}
	program, err := plainProgram()
	if err != nil {
		tb.Fatalf("build the test's own program: %v", err)
	}
	file := filepath.Join(tb.TempDir(), "report")
	cmd := exec.CommandContext(tb.Context(), program, "-test.run=^"+tb.Name()+"$", "-test.timeout=5m")
	cmd.Env = append(append(os.Environ(), aloneEnv+"="+file), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWNS, // also makes the mounts private
		Pdeathsig:    syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("run alone with %q, in namespaces of its own: %v\n%s", env, err, bytes.TrimSpace(output))
	}
	report, err = os.ReadFile(file)
	if err != nil {
		tb.Fatalf("read report: %v\n%s", err, output)
	}
	return report, true
}

// Report passes the results of a test to the process that called [Alone].
func Report(tb testing.TB, report []byte) {
	tb.Helper()
	if err := os.WriteFile(os.Getenv(aloneEnv), report, 0o600); err != nil {
		tb.Fatalf("write report: %v", err)
	}
}
