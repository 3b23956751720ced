package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// part is something that runs until its context ends.
type part struct {
	name string // for its errors; empty: they say enough
	run  func(context.Context) error
}

// errEnded says that a part returned although nobody had asked it to.
var errEnded = errors.New("ended by itself")

// inOrder runs all parts until ctx ends or one of them does, calls drain, and
// then ends them one after the other: the next is asked once the one before
// has returned. It returns what the parts returned.
func inOrder(ctx context.Context, drain func(), parts []part) error {
	type running struct {
		stop context.CancelFunc
		done chan struct{}
		err  error
	}
	all := make([]running, len(parts))
	ended := make(chan struct{}, len(parts))
	var wait sync.WaitGroup
	for i, p := range parts {
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		all[i] = running{stop: stop, done: make(chan struct{})}
		wait.Go(func() {
			defer close(all[i].done)
			if err := p.run(own); err != nil && p.name == "" {
				all[i].err = err
			} else if err != nil {
				all[i].err = fmt.Errorf("%s: %w", p.name, err)
			} else if own.Err() == nil {
				all[i].err = fmt.Errorf("%s: %w", p.name, errEnded)
			}
			ended <- struct{}{}
		})
	}

	select {
	case <-ctx.Done():
	case <-ended:
	}
	drain()
	errs := make([]error, 0, len(parts))
	for i := range all {
		all[i].stop()
		<-all[i].done
		errs = append(errs, all[i].err)
	}
	wait.Wait()
	return errors.Join(errs...)
}
