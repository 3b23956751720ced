package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Reencrypter encrypts the stored secrets and credentials with the newest key.
type Reencrypter interface {
	// Reencrypt encrypts the values of older keys again. It works for some
	// seconds, and returns with Done false if values are left.
	Reencrypt(ctx context.Context) (apitypes.Reencrypted, error)
}

func (rt *router) encryption() {
	handle(rt, route{
		name: "reencrypt-secrets", path: "POST /secrets/reencrypt",
		about: "Encrypt secrets and credentials again with the newest encryption key",
		tells: "One request works for some seconds. Repeat it until done is true.",
		scope: postrider.ScopeAdmin,
	}, rt.reencrypt)
}

func (s *server) reencrypt(ctx context.Context, _ *none) (*reply[apitypes.Reencrypted], error) {
	done, err := s.Reencrypter.Reencrypt(ctx)
	if err != nil {
		return nil, err
	}
	return answered(done), nil
}
