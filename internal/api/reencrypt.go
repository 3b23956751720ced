package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// registerReencryption registers the route that encrypts stored values again.
func (s *secretsRoutes) registerReencryption(rt *router) {
	handle(rt, route{
		name: "reencrypt-secrets", path: "POST /secrets/reencrypt",
		summary:     "Encrypt secrets and credentials again with the newest encryption key",
		description: "One request works for some seconds. Repeat it until done is true.",
		scope:       postrider.ScopeAdmin,
	}, s.reencrypt)
}

// reencrypt performs one step and returns the progress.
func (s *secretsRoutes) reencrypt(ctx context.Context, _ *none) (*reply[apitypes.Reencrypted], error) {
	done, err := s.Reencrypter.Reencrypt(ctx)
	if err != nil {
		return nil, err
	}
	return respond(done), nil
}
