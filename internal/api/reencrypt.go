package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Reencrypter encrypts the stored secrets and credentials again with the newest
// encryption key.
type Reencrypter interface {
	// Reencrypt works for some seconds. It returns Done false if values with
	// older keys remain; the client then repeats the request. A repeated call
	// continues with the remaining values.
	Reencrypt(ctx context.Context) (apitypes.Reencrypted, error)
}

// encryption registers the route that encrypts stored values again.
func (rt *router) encryption() {
	handle(rt, route{
		name: "reencrypt-secrets", path: "POST /secrets/reencrypt",
		summary:     "Encrypt secrets and credentials again with the newest encryption key",
		description: "One request works for some seconds. Repeat it until done is true.",
		scope:       postrider.ScopeAdmin,
	}, rt.reencrypt)
}

// reencrypt performs one step and returns the progress.
func (s *server) reencrypt(ctx context.Context, _ *none) (*reply[apitypes.Reencrypted], error) {
	done, err := s.Reencrypter.Reencrypt(ctx)
	if err != nil {
		return nil, err
	}
	return respond(done), nil
}
