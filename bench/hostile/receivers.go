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

// hello is the first message of the receivers' process.
type hello struct {
	Nameserver string
	Authority  []byte // PEM
}

// request asks for receivers. With Stop it ends the receivers of that set.
type request struct {
	Name, Scheme string
	Count        int
	Stop         int
}

// reply is the answer to a request.
type reply struct {
	Set   int // number of the new set, for a later Stop
	URLs  []string
	Again int // requests over connections that must not be used again
	Error string
}

// serve runs the process of the receivers. It ends with its standard input.
func serve(_ context.Context, _ options) error {
	rig, err := testkit.StartHostileRig()
	if err != nil {
		return err
	}
	defer rig.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(hello{rig.NameserverAddress(), rig.CA.PEM()}); err != nil {
		return err
	}
	sets := map[int][]*testkit.HostileReceiver{}
	for in, n := json.NewDecoder(os.Stdin), 1; ; n++ {
		var c request
		if err := in.Decode(&c); err != nil {
			return nil // the sender has gone
		}
		said := reply{Set: n}
		if c.Stop > 0 {
			said.Again = stop(sets[c.Stop])
			delete(sets, c.Stop)
		} else if sets[n], err = start(rig, c); err != nil {
			said.Error = err.Error()
		}
		for _, r := range sets[n] {
			said.URLs = append(said.URLs, r.URL)
		}
		if err := out.Encode(said); err != nil {
			return err
		}
	}
}

func start(rig *testkit.HostileRig, c request) ([]*testkit.HostileReceiver, error) {
	all := testkit.Hostiles()
	i := slices.IndexFunc(all, func(h testkit.Hostile) bool { return h.Name == c.Name })
	if i < 0 {
		return nil, fmt.Errorf("no misbehaviour %q", c.Name)
	}
	var set []*testkit.HostileReceiver
	for range c.Count {
		r, err := rig.Start(all[i], c.Scheme)
		if err != nil {
			return set, err
		}
		set = append(set, r)
	}
	return set, nil
}

func stop(set []*testkit.HostileReceiver) (again int) {
	for _, r := range set {
		r.Close()
		again += r.Again()
	}
	return again
}

// receivers is the sender's side of the receivers' process.
type receivers struct {
	nameserver string
	roots      *x509.CertPool

	process *exec.Cmd
	stdin   io.WriteCloser

	mu  sync.Mutex
	in  *json.Encoder
	out *json.Decoder
}

func startReceivers(ctx context.Context) (*receivers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	t := &receivers{process: exec.CommandContext(ctx, self, "-serve"), roots: x509.NewCertPool()}
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
	var first hello
	if err := t.out.Decode(&first); err != nil {
		return nil, errors.Join(fmt.Errorf("hear from receivers: %w", err), t.close())
	}
	t.nameserver = first.Nameserver
	t.roots.AppendCertsFromPEM(first.Authority)
	return t, nil
}

func (t *receivers) ask(c request) (reply, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.in.Encode(c); err != nil {
		return reply{}, fmt.Errorf("ask receivers: %w", err)
	}
	var said reply
	if err := t.out.Decode(&said); err != nil {
		return reply{}, fmt.Errorf("hear from receivers: %w", err)
	}
	if said.Error != "" {
		return reply{}, errors.New(said.Error)
	}
	return said, nil
}

func (t *receivers) close() error {
	err := t.stdin.Close()
	return errors.Join(err, t.process.Wait())
}
