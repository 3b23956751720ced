package secrets

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
)

// registerReencryption registers the route that encrypts stored values again with the newest key.
func (s *Routes) registerReencryption(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "reencrypt-secrets", Path: "POST /secrets/reencrypt",
		Summary:     "Encrypt secrets and credentials again with the newest encryption key",
		Description: "One request works for some seconds. Repeat it until done is true.",
		Scope:       postrider.ScopeAdmin,
	}, s.reencrypt)
}

// reencrypt makes one step of the re-encryption and returns the progress.
func (s *Routes) reencrypt(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.Reencrypted], error) {
	done, err := s.Reencrypter.Reencrypt(ctx)
	if err != nil {
		return nil, err
	}
	return rest.Respond(done), nil
}
