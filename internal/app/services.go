package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// service is a part of the server that runs until its context ends.
type service struct {
	name string                      // prefix of its errors; empty: the errors need no prefix
	run  func(context.Context) error // returns nil only after the context has ended
}

// errEnded means that a service returned nil before its context ended.
var errEnded = errors.New("ended by itself")

// runServices runs all services until ctx ends or one of them returns. Then it calls drain, and
// ends the services in their order: it cancels the context of one service, waits until that service
// has returned, and goes on to the next. It returns all errors, joined.
//
// A service therefore stands before the services that it needs while it ends. Each service gets its
// own context, which the end of ctx does not cancel. Otherwise all services would end at once.
func runServices(ctx context.Context, drain func(), services []service) error {
	type running struct {
		sync.WaitGroup

		stop context.CancelFunc
		err  error
	}
	all := make([]running, len(services))
	ended := make(chan struct{}, len(services))
	for i, s := range services {
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		all[i].stop = stop
		all[i].Go(func() {
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
		all[i].Wait()
		errs = append(errs, all[i].err)
	}
	return errors.Join(errs...)
}
