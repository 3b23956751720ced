package api

import (
	"context"

	"github.com/postrider/postrider"
)

// Resealer seals what is stored with the newest sealing key.
type Resealer interface {
	// Reseal seals anew what is sealed with an older key, for some seconds.
	Reseal(ctx context.Context) (Resealed, error)
}

// Resealed is what a call of Reseal did.
type Resealed struct {
	Key        string `json:"key" doc:"The id of the newest sealing key."`
	Sealed     int    `json:"sealed" doc:"How many secrets and credentials were looked at last."`
	Resealed   int    `json:"resealed" doc:"How many were sealed with an older key, and are no longer."`
	Unreadable int    `json:"unreadable" doc:"How many no sealing key opens; the log names them."`
	Done       bool   `json:"done" doc:"Whether all the others are sealed with the newest key; false: ask again."`
}

func (rt *router) sealing() {
	handle(rt, route{
		name: "reseal-secrets", path: "POST /secrets/reseal",
		about: "Seal secrets and credentials with the newest sealing key",
		scope: postrider.ScopeAdmin,
	}, rt.reseal)
}

func (s *server) reseal(ctx context.Context, _ *none) (*reply[Resealed], error) {
	done, err := s.Resealer.Reseal(ctx)
	if err != nil {
		return nil, err
	}
	return answered(done), nil
}
