package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that the lab started.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	from int64 // offset in the log at which the output of this process begins

	waiting sync.WaitGroup
	exited  chan struct{}
	err     error // why it ended; read it only after exited is closed
}

// Start starts a program. Its output goes to the file NAME.log in the lab's folder; if out is not
// nil, its standard output goes to out instead. The end of ctx kills the program.
func (l *Lab) Start(ctx context.Context, name string, out io.Writer, args ...string) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(l.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	written, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	p := &Process{name: name, log: log, from: written, exited: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if out != nil {
		p.cmd.Stdout = out
	}
	p.cmd.Env = environment()
	// An interrupt then reaches only this program, which passes it on.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	p.waiting.Go(func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
	return p, nil
}

// environment returns the environment without the POSTRIDER_ settings of the person who runs the
// program.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "POSTRIDER_") })
}

// Kill ends the process as a power cut would, and waits until it has ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	p.waiting.Wait()
	if err := p.log.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	return nil
}

// Terminate asks the process to end and waits for at most within. It returns nil if the exit status
// is 0.
func (p *Process) Terminate(within time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("terminate %s: %w", p.name, err)
	}
	return p.Wait(within)
}

// Wait waits for at most within until the process ends by itself.
func (p *Process) Wait(within time.Duration) error {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.Tail())
		}
		return nil
	case <-timeout.C:
		return errors.Join(fmt.Errorf("%s: still runs after %v", p.name, within), p.Kill())
	}
}

// waitOr does what [Process.Wait] does. If end is closed meanwhile, it asks the process to end.
func (p *Process) waitOr(end <-chan struct{}, within time.Duration) error {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-end:
		return p.Terminate(time.Minute)
	case <-p.exited:
		return p.Wait(time.Minute)
	case <-timeout.C:
		return p.Wait(time.Millisecond) // the time is over: Wait kills the process
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// LastLine returns the last line of the output that contains the text; empty if there is none.
func (p *Process) LastLine(with string) (string, error) {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return "", fmt.Errorf("read the log of %s: %w", p.name, err)
	}
	var last string
	for line := range strings.Lines(string(text[p.from:])) {
		if strings.Contains(line, with) {
			last = strings.TrimSpace(line)
		}
	}
	return last, nil
}

// Tail returns the last 2,000 bytes of the output.
func (p *Process) Tail() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-2000):])
}

// ResetPeak makes Usage.Peak count from the present use of memory (proc(5), clear_refs). It returns
// the present use.
func (p *Process) ResetPeak() (int64, error) {
	path := fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid)
	if err := os.WriteFile(path, []byte("5"), 0); err != nil {
		return 0, fmt.Errorf("reset the peak of %s: %w", p.name, err)
	}
	used, err := pidUsage(p.cmd.Process.Pid)
	return used.Peak, err
}

// Usage is what a process used.
type Usage struct {
	CPU  time.Duration // of all threads, in user and kernel mode
	Peak int64         // peak of resident memory, in bytes
}

// Usage returns what the process has used so far. After its end it returns only the CPU time.
func (p *Process) Usage() (Usage, error) {
	select {
	case <-p.exited:
		return Usage{CPU: p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()}, nil
	default:
		return pidUsage(p.cmd.Process.Pid)
	}
}

// tick is the unit of times in /proc: USER_HZ, which is 100 on every Linux.
const tick = 10 * time.Millisecond

func pidUsage(pid int) (Usage, error) {
	s, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	peak, _ := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64)
	return Usage{CPU: s.own, Peak: peak << 10}, nil
}

// familyUsage adds up a process, its present children, and the children that it has waited for.
// Peak is the peak of the largest of them, because a sum would count shared memory several times.
func familyUsage(parent int) (Usage, error) {
	s, err := readStat(parent)
	if err != nil {
		return Usage{}, err
	}
	total := Usage{CPU: s.own + s.waited}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return Usage{}, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		child, err := readStat(pid)
		if err != nil || child.parent != parent {
			continue // has ended meanwhile, or is not a child
		}
		if used, err := pidUsage(pid); err == nil {
			total.CPU += used.CPU
			total.Peak = max(total.Peak, used.Peak)
		}
	}
	return total, nil
}

type stat struct {
	parent      int
	own, waited time.Duration
}

// readStat reads /proc/pid/stat (proc(5)). Field 2, the name, may contain any character; it ends at
// the last parenthesis.
func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	number := func(field int) int64 { // field has the number of proc(5)
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}
	return stat{
		parent: int(number(4)),
		own:    time.Duration(number(14)+number(15)) * tick,
		waited: time.Duration(number(16)+number(17)) * tick,
	}, nil
}

// Machine is the time of all processors since the machine started.
type Machine struct {
	All    time.Duration
	Stolen time.Duration // time that the host of a virtual machine gave to others
}

// MachineTime returns the first line of /proc/stat (proc(5)).
func MachineTime() (Machine, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Machine{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var m Machine
	for i, field := range fields[1:9] { // fields 9 and 10, of guests, are included in the first two
		n, _ := strconv.ParseInt(field, 10, 64)
		m.All += time.Duration(n) * tick
		if i == 7 {
			m.Stolen = time.Duration(n) * tick
		}
	}
	return m, nil
}
