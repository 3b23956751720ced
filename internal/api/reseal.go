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
	Key        string `json:"key" doc:"Id of the newest sealing key."`
	Sealed     int    `json:"sealed" doc:"Number of secrets and credentials that the last pass checked."`
	Resealed   int    `json:"resealed" doc:"Number of them that this request sealed again with the newest key."`
	Unreadable int    `json:"unreadable" doc:"Number of them that no sealing key opens. The server's log names them."`
	Done       bool   `json:"done" doc:"Whether everything that can be read is sealed with the newest key. False: repeat the request."`
}

func (rt *router) sealing() {
	handle(rt, route{
		name: "reseal-secrets", path: "POST /secrets/reseal",
		about: "Seal secrets and credentials again with the newest sealing key",
		tells: "One request works for some seconds. Repeat it until done is true.",
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
