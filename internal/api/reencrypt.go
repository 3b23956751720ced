package api

import (
	"context"

	"github.com/postrider/postrider"
)

// Reencrypter encrypts the stored secrets and credentials with the newest key.
type Reencrypter interface {
	// Reencrypt encrypts the values of older keys again. It works for some
	// seconds, and returns with Done false if values are left.
	Reencrypt(ctx context.Context) (Reencrypted, error)
}

// Reencrypted is the result of one call of Reencrypt.
type Reencrypted struct {
	Key         string `json:"key" doc:"Id of the newest encryption key."`
	Checked     int    `json:"checked" doc:"Number of secrets and credentials that the last pass checked."`
	Reencrypted int    `json:"reencrypted" doc:"Number of them that this request encrypted again with the newest key."`
	Unreadable  int    `json:"unreadable" doc:"Number of them that no encryption key decrypts. The server's log names them."`
	Done        bool   `json:"done" doc:"Whether everything that can be read is encrypted with the newest key. False: repeat the request."`
}

func (rt *router) encryption() {
	handle(rt, route{
		name: "reencrypt-secrets", path: "POST /secrets/reencrypt",
		about: "Encrypt secrets and credentials again with the newest encryption key",
		tells: "One request works for some seconds. Repeat it until done is true.",
		scope: postrider.ScopeAdmin,
	}, rt.reencrypt)
}

func (s *server) reencrypt(ctx context.Context, _ *none) (*reply[Reencrypted], error) {
	done, err := s.Reencrypter.Reencrypt(ctx)
	if err != nil {
		return nil, err
	}
	return answered(done), nil
}
