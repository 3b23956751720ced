package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// service is something that runs until its context ends.
type service struct {
	name string // for its errors; empty: they say enough
	run  func(context.Context) error
}

// errEnded says that a service returned before it was asked to end.
var errEnded = errors.New("ended by itself")

// runServices runs all services until ctx ends or one of them returns. Then it
// calls drain and ends the services in their order: the context of the next is
// cancelled once the one before has returned. It returns their errors, joined.
// A service therefore stands above the services that it needs while it ends.
func runServices(ctx context.Context, drain func(), services []service) error {
	type running struct {
		stop context.CancelFunc
		done chan struct{}
		err  error
	}
	all := make([]running, len(services))
	ended := make(chan struct{}, len(services))
	var wait sync.WaitGroup
	for i, s := range services {
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		all[i] = running{stop: stop, done: make(chan struct{})}
		wait.Go(func() {
			defer close(all[i].done)
			if err := s.run(own); err != nil && s.name == "" {
				all[i].err = err
			} else if err != nil {
				all[i].err = fmt.Errorf("%s: %w", s.name, err)
			} else if own.Err() == nil {
				all[i].err = fmt.Errorf("%s: %w", s.name, errEnded)
			}
			ended <- struct{}{}
		})
	}

	select {
	case <-ctx.Done():
	case <-ended:
	}
	drain()
	errs := make([]error, 0, len(services))
	for i := range all {
		all[i].stop()
		<-all[i].done
		errs = append(errs, all[i].err)
	}
	wait.Wait()
	return errors.Join(errs...)
}
