package webhook

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Built is a request as it is sent, with its header as it is recorded.
type Built struct {
	Bytes, Redacted []byte
	release         func()
}

// Release returns the memory of the request to the pool.
func (b Built) Release() { b.release() }

// Build makes the request of an attempt.
func (s *Sender) Build(c *postrider.Claimed, to *store.EndpointSnapshot, at time.Time) (Built, error) {
	x := newExchange()
	if err := s.build(x, draft{claimed: c, to: to, at: at}); err != nil {
		x.release()
		return Built{}, err
	}
	return Built{x.Request.Bytes(), redact(x.header, x.target.shown), x.release}, nil
}

// SignAndBuild does the part of Send that comes before anything is sent.
func (s *Sender) SignAndBuild(c *postrider.Claimed, to *store.EndpointSnapshot, at time.Time) error {
	x := newExchange()
	defer x.release()
	return s.build(x, draft{claimed: c, to: to, at: at})
}

func (s *Sender) build(x *exchange, d draft) (err error) {
	if x.target, err = s.targets.find(context.Background(), d.to, d.at); err == nil {
		x.header, err = d.build(x.target, &x.Request, x.header[:0])
	}
	return err
}
