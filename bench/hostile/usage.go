package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// usage is what this process uses.
type usage struct {
	resident   int // bytes
	peak       int // the peak of resident, in bytes
	goroutines int
	files      int
}

func readUsage() (usage, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage{}, fmt.Errorf("read usage: %w", err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return usage{}, fmt.Errorf("read usage: %w", err)
	}
	return usage{
		resident: kilobytes(status, "VmRSS:") << 10, peak: kilobytes(status, "VmHWM:") << 10,
		goroutines: runtime.NumGoroutine(), files: len(files),
	}, nil
}

func kilobytes(status []byte, name string) int {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	n, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil {
		return 0
	}
	return n
}

// settled waits until there are as few goroutines and files as before, at most for the time most.
// It returns the usage at the end and the time that it waited.
func settled(ctx context.Context, before usage, most time.Duration) (usage, time.Duration, error) {
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := readUsage()
		took := time.Since(began)
		if err != nil || took >= most || now.goroutines <= before.goroutines && now.files <= before.files {
			return now, took, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return now, took, fmt.Errorf("wait for goroutines and files: %w", ctx.Err())
		}
	}
}
