package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"

	"github.com/postrider/postrider/internal/testkit"
)

// greeting is what the receivers' process says first.
type greeting struct {
	Nameserver string
	Authority  []byte // PEM
}

// cue asks for receivers, or, with Stop, for the end of some.
type cue struct {
	Name, Scheme string
	Count        int
	Stop         int
}

// echo is the answer to a cue.
type echo struct {
	Cast  int // for Stop
	URLs  []string
	Again int // requests over connections that were not fit for them
	Error string
}

// serve is the process of the receivers. It ends with its standard input.
func serve(_ context.Context, _ options) error {
	rig, err := testkit.StartHostileRig()
	if err != nil {
		return err
	}
	defer rig.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(greeting{rig.NameserverAddress(), rig.CA.PEM()}); err != nil {
		return err
	}
	casts := map[int][]*testkit.HostileReceiver{}
	for in, n := json.NewDecoder(os.Stdin), 1; ; n++ {
		var c cue
		if err := in.Decode(&c); err != nil {
			return nil // the sender has gone
		}
		said := echo{Cast: n}
		if c.Stop > 0 {
			said.Again = stop(casts[c.Stop])
			delete(casts, c.Stop)
		} else if casts[n], err = start(rig, c); err != nil {
			said.Error = err.Error()
		}
		for _, r := range casts[n] {
			said.URLs = append(said.URLs, r.URL)
		}
		if err := out.Encode(said); err != nil {
			return err
		}
	}
}

func start(rig *testkit.HostileRig, c cue) ([]*testkit.HostileReceiver, error) {
	all := testkit.Hostiles()
	i := slices.IndexFunc(all, func(h testkit.Hostile) bool { return h.Name == c.Name })
	if i < 0 {
		return nil, fmt.Errorf("no misbehaviour %q", c.Name)
	}
	var cast []*testkit.HostileReceiver
	for range c.Count {
		r, err := rig.Start(all[i], c.Scheme)
		if err != nil {
			return cast, err
		}
		cast = append(cast, r)
	}
	return cast, nil
}

func stop(cast []*testkit.HostileReceiver) (again int) {
	for _, r := range cast {
		r.Close()
		again += r.Again()
	}
	return again
}

// troupe is the receivers' process as the sender sees it.
type troupe struct {
	nameserver string
	roots      *x509.CertPool

	process *exec.Cmd
	stdin   io.WriteCloser

	mu  sync.Mutex
	in  *json.Encoder
	out *json.Decoder
}

func startTroupe(ctx context.Context) (*troupe, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	t := &troupe{process: exec.CommandContext(ctx, self, "-serve"), roots: x509.NewCertPool()}
	t.process.Stderr = os.Stderr
	if t.stdin, err = t.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start receivers: %w", err)
	}
	stdout, err := t.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start receivers: %w", err)
	}
	if err := t.process.Start(); err != nil {
		return nil, fmt.Errorf("start receivers: %w", err)
	}
	t.in, t.out = json.NewEncoder(t.stdin), json.NewDecoder(bufio.NewReader(stdout))
	var hello greeting
	if err := t.out.Decode(&hello); err != nil {
		return nil, errors.Join(fmt.Errorf("hear from receivers: %w", err), t.close())
	}
	t.nameserver = hello.Nameserver
	t.roots.AppendCertsFromPEM(hello.Authority)
	return t, nil
}

func (t *troupe) ask(c cue) (echo, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.in.Encode(c); err != nil {
		return echo{}, fmt.Errorf("ask receivers: %w", err)
	}
	var said echo
	if err := t.out.Decode(&said); err != nil {
		return echo{}, fmt.Errorf("hear from receivers: %w", err)
	}
	if said.Error != "" {
		return echo{}, errors.New(said.Error)
	}
	return said, nil
}

func (t *troupe) close() error {
	err := t.stdin.Close()
	return errors.Join(err, t.process.Wait())
}
