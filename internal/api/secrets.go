package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 30 * 24 * time.Hour
	maxSecrets     = 5  // brought along with a new endpoint
	maxValid       = 10 // of one endpoint: all of them sign each request
)

type secretView struct {
	ID        string  `json:"id"`
	Secret    string  `json:"secret" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	CreatedAt string  `json:"created_at" format:"date-time"`
	ExpiresAt *string `json:"expires_at" format:"date-time" doc:"When it stops signing; null: not until it is rotated."`
}

func viewSecret(s postrider.Secret) secretView {
	return secretView{
		ID: s.ID.String(), Secret: signature.FormatSecret(s.Key),
		CreatedAt: instant(s.CreatedAt), ExpiresAt: instantOrNull(s.ExpiresAt),
	}
}

type rotation struct {
	Secret  *string `json:"secret,omitempty" doc:"A secret to bring along, whsec_…; default: one is made."`
	Overlap *int64  `json:"overlap_ms,omitempty" doc:"How long the old secrets go on signing; default 24 hours, 0 revokes them at once."`
}

func (rt *router) secrets() {
	write := postrider.ScopeWebhooksWrite
	handle(rt, route{
		name: "list-secrets", path: "GET /endpoints/{endpoint}/secrets",
		about: "Show an endpoint's secrets, newest first",
		scope: write,
	}, rt.listSecrets)
	handle(rt, route{
		name: "rotate-secret", path: "POST /endpoints/{endpoint}/secrets/rotate",
		about: "Give an endpoint a new secret",
		scope: write, body: rotation{}, empty: true,
	}, rt.rotateSecret)
}

func (s *server) listSecrets(ctx context.Context, in *EndpointPath) (*reply[list[secretView]], error) {
	e, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	answer := list[secretView]{Data: []secretView{}}
	for _, secret := range secrets {
		answer.Data = append(answer.Data, viewSecret(secret))
	}
	return answered(answer), nil
}

func (s *server) rotateSecret(ctx context.Context, in *EndpointPath) (*reply[secretView], error) {
	var body rotation
	if err := decodeIfAny(ctx, &body); err != nil {
		return nil, err
	}
	overlap, key, err := body.read()
	if err != nil {
		return nil, err
	}
	e, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := s.checkRoom(ctx, e.ID, overlap); err != nil {
		return nil, err
	}
	secret, err := s.makeSecret(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	if key != nil {
		secret.Key = key
	}
	if err := s.Store.RotateSecret(ctx, store.RotateSecret{Secret: secret, Overlap: overlap}); err != nil {
		return nil, err
	}
	s.Waker.Wake(e.ID)
	return answered(viewSecret(secret)), nil
}

// read returns how long the old secrets stay, and the key that is brought along
// or nil.
func (r rotation) read() (time.Duration, []byte, error) {
	overlap := defaultOverlap
	if r.Overlap != nil {
		overlap = millis(*r.Overlap)
	}
	var faults []error
	if overlap < 0 || overlap > maxOverlap {
		faults = append(faults, invalid("overlap_ms", "must be 0 to 30 days"))
	}
	var key []byte
	if r.Secret != nil {
		var err error
		key, err = parseKey("secret", *r.Secret)
		faults = append(faults, err)
	}
	return overlap, key, errors.Join(faults...)
}

// checkRoom refuses a rotation that would leave too many secrets in force. Two
// rotations at the same time may both find the last place free.
func (s *server) checkRoom(ctx context.Context, endpoint postrider.EndpointID, overlap time.Duration) error {
	if overlap == 0 { // revokes all others
		return nil
	}
	secrets, err := s.Store.Secrets(ctx, endpoint)
	if err == nil && len(secrets) >= maxValid {
		return conflict(fmt.Sprintf("the endpoint has %d secrets that have not expired; an overlap_ms of 0 revokes them", len(secrets)))
	}
	return err
}

func (s *server) makeSecret(ctx context.Context, endpoint postrider.EndpointID) (postrider.Secret, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return postrider.Secret{}, err
	}
	key, err := signature.NewSecret(rand.Reader)
	if err != nil {
		return postrider.Secret{}, err
	}
	return postrider.Secret{ID: store.NewID[postrider.SecretID](s.IDs), Endpoint: endpoint, Key: key, CreatedAt: now}, nil
}

// broughtSecrets returns the secrets that a new endpoint brings along, the
// newest first, or one that is made.
func (s *server) broughtSecrets(ctx context.Context, endpoint postrider.EndpointID, b newEndpoint) ([]postrider.Secret, error) {
	if b.Secret == nil && b.Secrets == nil {
		secret, err := s.makeSecret(ctx, endpoint)
		return []postrider.Secret{secret}, err
	}
	keys, err := b.keys()
	if err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	secrets := make([]postrider.Secret, len(keys))
	for i := len(keys) - 1; i >= 0; i-- { // ids are made oldest first, as the secrets were
		secrets[i] = postrider.Secret{ID: store.NewID[postrider.SecretID](s.IDs), Endpoint: endpoint, Key: keys[i], CreatedAt: now}
	}
	return secrets, nil
}

// keys reads the secrets of the body, in either of their two forms.
func (b newEndpoint) keys() ([][]byte, error) {
	if b.Secret != nil && b.Secrets != nil {
		return nil, invalid("secrets", "must not be there beside secret")
	}
	texts, field := b.Secrets, func(i int) string { return fmt.Sprintf("secrets[%d]", i) }
	if b.Secret != nil {
		texts, field = []string{*b.Secret}, func(int) string { return "secret" }
	}
	if len(texts) == 0 || len(texts) > maxSecrets {
		return nil, invalid("secrets", fmt.Sprintf("must have 1 to %d secrets", maxSecrets))
	}
	var keys [][]byte
	var faults []error
	for i, text := range texts {
		key, err := parseKey(field(i), text)
		faults = append(faults, err)
		keys = append(keys, key)
	}
	return keys, errors.Join(faults...)
}

func parseKey(field, text string) ([]byte, error) {
	key, err := signature.ParseSecret(text)
	if err != nil {
		return nil, invalid(field, "must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return key, nil
}
