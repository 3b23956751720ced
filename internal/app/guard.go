package app

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// guard is what the API asks of egress before it takes an endpoint.
type guard struct{ *egress.Egress }

// CheckTLS implements [api.Guard].
func (guard) CheckTLS(t postrider.TLS, key string) error { return egress.CheckTLS(t, key) }
