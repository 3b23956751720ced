// Package secrets is the part of the API that serves the secrets of endpoints, and their public keys
// to everybody.
//
// An endpoint can always sign in every scheme of its policy: what would end that is refused. No
// response has a private key.
package secrets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Secrets is the method of store.Directory.
	Secrets(ctx context.Context, endpoints ...postrider.EndpointID) ([]postrider.Secret, error)
	// RotateSecret is the method of store.Directory.
	RotateSecret(ctx context.Context, r store.RotateSecret) error
	// RevokeSecret is the method of store.Directory.
	RevokeSecret(ctx context.Context, r store.RevokeSecret) error
	// PublicKeys is the method of store.Directory.
	PublicKeys(ctx context.Context, q store.PublicKeyQuery) (store.Page[postrider.Secret], error)
}

// Vault encrypts and decrypts the secrets that the store keeps encrypted.
type Vault interface {
	// EncryptSecret encrypts the text into the secret. The secret's id must be
	// set.
	EncryptSecret(ctx context.Context, s *postrider.Secret, text string) error
	// DecryptSecret returns the plain text of a secret.
	DecryptSecret(ctx context.Context, s postrider.Secret) (string, error)
}

// Reencrypter encrypts the stored secrets and credentials again with the newest
// encryption key.
type Reencrypter interface {
	// Reencrypt works for some seconds. It returns Done false if values with
	// older keys remain; the client then repeats the request. A repeated call
	// continues with the remaining values.
	Reencrypt(ctx context.Context) (apitypes.Reencrypted, error)
}

// Routes serves the secrets of endpoints.
type Routes struct {
	*rest.Shared

	Store       Store
	Vault       Vault
	Reencrypter Reencrypter
}

// Register registers the routes of an endpoint's secrets. Those that show texts need a
// scope of their own.
func (s *Routes) Register(rt *rest.Router) {
	write := postrider.ScopeEndpointsWrite
	rest.Handle(rt, rest.Route{
		Name: "list-secret-states", Path: "GET /endpoints/{endpoint}/secret-states",
		Summary:     "List an endpoint's secrets without their texts, newest first",
		Description: "Secrets that have expired or were revoked are left out.",
		Scope:       postrider.ScopeWebhooksRead,
	}, s.listSecretStates)
	rest.Handle(rt, rest.Route{
		Name: "reveal-secret", Path: "POST /endpoints/{endpoint}/secrets/{secret}/reveal",
		Summary: "Show one of an endpoint's secrets",
		Scope:   postrider.ScopeSecretsRead,
	}, s.revealSecret)
	rest.Handle(rt, rest.Route{
		Name: "list-secrets", Path: "GET /endpoints/{endpoint}/secrets",
		Summary:     "Show all of an endpoint's secrets, newest first",
		Description: "Secrets that have expired or were revoked are left out.",
		Scope:       postrider.ScopeSecretsRead, Reveals: true,
	}, s.listSecrets)
	rest.HandleBody(rt, rest.Route{
		Name: "rotate-secret", Path: "POST /endpoints/{endpoint}/secrets/rotate",
		Summary: "Rotate an endpoint's secret",
		Codes:   []string{"conflict", "endpoint_deleted", "endpoint_set_aside", "too_many_secrets", "secret_exists"},
		Scope:   write, Empty: true, Withdraws: true,
	}, s.rotateSecret)
	rest.Handle(rt, rest.Route{
		Name: "revoke-secret", Path: "DELETE /endpoints/{endpoint}/secrets/{secret}",
		Summary: "Revoke one of an endpoint's secrets",
		Codes:   []string{"endpoint_deleted", "endpoint_set_aside", "last_secret"},
		Scope:   write, Status: 204,
	}, s.revokeSecret)
	s.registerReencryption(rt)
	s.registerPublicKeys(rt)
}

const (
	// After a rotation the old secrets stay valid for the overlap.
	defaultOverlap = 24 * time.Hour
	// maxSecrets is the largest number of secrets that a request can give a new
	// endpoint.
	maxSecrets = 5
	// maxValid is the largest number of valid secrets of one endpoint. Each of
	// them signs every request, so each makes the requests larger.
	maxValid = 10
)

// The types of a secret. The key of a text secret is its characters, and it
// signs by HMAC too.
const (
	typeHMAC    = "hmac"
	typeText    = "text"
	typeEd25519 = "ed25519"
)

// viewSecret returns a secret in the form of a response. The text is its plain
// text. It is not used for a private key: a response shows only the public
// half.
func viewSecret(s postrider.Secret, text string) apitypes.Secret {
	view := apitypes.Secret{
		ID: s.ID, Type: typeEd25519, PublicKey: render.OrNull(s.Public),
		CreatedAt: render.Instant(s.CreatedAt), ExpiresAt: render.TimeOrNull(s.ExpiresAt),
	}
	if s.Public == "" {
		view.Type, view.Secret = typeText, &text
		if strings.HasPrefix(text, "whsec_") {
			view.Type = typeHMAC
		}
	}
	return view
}

// SecretPath names a secret of an endpoint.
type SecretPath struct {
	rest.EndpointPath

	Secret string `path:"secret"`
}

// listSecrets shows the secrets of an endpoint with their texts, so that an
// owner can configure a receiver again. Private keys are not shown.
func (s *Routes) listSecrets(ctx context.Context, in *rest.EndpointPath) (*rest.Reply[apitypes.List[apitypes.Secret]], error) {
	secrets, err := s.secretsOf(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	result := apitypes.List[apitypes.Secret]{Data: []apitypes.Secret{}}
	for _, secret := range secrets {
		view, err := s.shownSecret(ctx, secret)
		if err != nil {
			return nil, err
		}
		result.Data = append(result.Data, view)
	}
	return rest.Respond(result), nil
}

// secretsOf returns the stored secrets of an endpoint that is not deleted.
func (s *Routes) secretsOf(ctx context.Context, endpoint string) ([]postrider.Secret, error) {
	e, err := s.Names.LiveEndpoint(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return s.Store.Secrets(ctx, e.ID)
}

// shownSecret returns a stored secret with its text. A private key is not decrypted.
func (s *Routes) shownSecret(ctx context.Context, secret postrider.Secret) (apitypes.Secret, error) {
	if secret.Public != "" {
		return viewSecret(secret, ""), nil
	}
	text, err := s.Vault.DecryptSecret(ctx, secret)
	return viewSecret(secret, text), err
}

// listSecretStates lists the secrets of an endpoint without their texts. It decrypts
// them to tell their types. One that cannot be decrypted is listed as unreadable, so that
// a person sees which one to rotate.
func (s *Routes) listSecretStates(ctx context.Context, in *rest.EndpointPath) (*rest.Reply[apitypes.List[apitypes.SecretState]], error) {
	secrets, err := s.secretsOf(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	result := apitypes.List[apitypes.SecretState]{Data: []apitypes.SecretState{}}
	for _, secret := range secrets {
		view, err := s.shownSecret(ctx, secret)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		state := apitypes.SecretState{
			ID: view.ID, Type: &view.Type, State: "current", PublicKey: view.PublicKey, CreatedAt: view.CreatedAt, ExpiresAt: view.ExpiresAt,
		}
		switch {
		case err != nil:
			state.State, state.Type = "unreadable", nil
		case view.ExpiresAt != nil:
			state.State = "previous"
		}
		result.Data = append(result.Data, state)
	}
	return rest.Respond(result), nil
}

// revealSecret shows one secret of an endpoint. It is a POST, so that no link and no
// loaded page shows it again.
func (s *Routes) revealSecret(ctx context.Context, in *SecretPath) (*rest.Reply[apitypes.Secret], error) {
	secrets, err := s.secretsOf(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	id, err := rest.ParseID[postrider.SecretID](in.Secret)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(secrets, func(s postrider.Secret) bool { return s.ID == id })
	if at < 0 {
		return nil, postrider.ErrNotFound
	}
	view, err := s.shownSecret(ctx, secrets[at])
	if err != nil {
		return nil, err
	}
	return rest.Respond(view), nil
}

// rotateSecret adds a secret and lets all others expire after the overlap. The
// new secret alone must be able to sign in every scheme of the endpoint, because after
// the overlap it is the only one. The check comes before the write: a rotation that
// ended in an endpoint without a usable secret could not be undone, since the old
// secrets expire.
func (s *Routes) rotateSecret(ctx context.Context, in *rest.EndpointPath, body apitypes.SecretRotation) (*rest.Reply[apitypes.Secret], error) {
	overlap, key, err := readRotation(body)
	if err != nil {
		return nil, err
	}
	e, err := s.Names.ReadableEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := s.checkOthers(ctx, e.ID, overlap, key); err != nil {
		return nil, err
	}
	secret, err := s.encrypted(ctx, e.ID, key)
	if err != nil {
		return nil, err
	}
	if err := e.Policy.CheckSecrets([]postrider.Secret{secret}); err != nil { // all others expire
		field := "key_type"
		if body.Secret != "" {
			field = "secret"
		}
		return nil, rest.Invalid(field, postrider.FaultMalformed, "must not be an ed25519 key: "+err.Error())
	}
	if err := s.Store.RotateSecret(ctx, store.RotateSecret{Secret: secret, Overlap: overlap}); err != nil {
		return nil, err
	}
	s.Effects.Notify(e.ID)
	s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: e.ID})
	return rest.Respond(viewSecret(secret, key.Text())), nil
}

// readRotation returns the overlap and the new secret of a rotation. Without a
// secret in the request, it makes a random one.
func readRotation(r apitypes.SecretRotation) (time.Duration, signature.Secret, error) {
	overlap := defaultOverlap
	if r.OverlapMS != nil {
		overlap = rest.Millis(*r.OverlapMS)
	}
	var fault error
	if overlap < 0 || overlap > postrider.MaxOverlap {
		fault = &postrider.InvalidError{
			Field: "overlap_ms", Code: postrider.FaultOutOfRange, Reason: "must be 0 to 30 days", Max: postrider.MaxOverlap.Milliseconds(),
		}
	}
	keys, err := readSecrets(apitypes.NewSecrets{Secret: r.Secret, KeyType: r.KeyType})
	if err := errors.Join(fault, err); err != nil {
		return 0, signature.Secret{}, err
	}
	return overlap, keys[0], nil
}

// checkOthers refuses a rotation that would exceed maxValid or repeat a valid
// secret. It is no exact limit: two concurrent rotations may both pass it. That is
// harmless, since the limit only keeps the headers of requests small.
func (s *Routes) checkOthers(ctx context.Context, endpoint postrider.EndpointID, overlap time.Duration, key signature.Secret) error {
	secrets, err := s.Store.Secrets(ctx, endpoint)
	if err != nil {
		return err
	}
	if overlap > 0 && len(secrets) >= maxValid { // an overlap of 0 revokes them
		return rest.Conflict("too_many_secrets",
			fmt.Sprintf("the endpoint has %d secrets that have not expired; an overlap_ms of 0 revokes them", len(secrets)))
	}
	for _, secret := range secrets {
		// A secret that cannot be decrypted is no obstacle: a rotation replaces it.
		if text, err := s.Vault.DecryptSecret(ctx, secret); err == nil && text == key.Text() {
			return rest.Conflict("secret_exists", "the endpoint has this secret already")
		}
	}
	return nil
}

// revokeSecret ends a secret at once. It refuses if the endpoint could not sign
// its requests afterwards.
func (s *Routes) revokeSecret(ctx context.Context, in *SecretPath) (*rest.None, error) {
	e, err := s.Names.ReadableEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	secret, err := rest.ParseID[postrider.SecretID](in.Secret)
	if err != nil {
		return nil, err
	}
	if err := s.checkLeft(ctx, e, secret); err != nil {
		return nil, err
	}
	err = s.Store.RevokeSecret(ctx, store.RevokeSecret{Endpoint: e.ID, Secret: secret})
	if errors.Is(err, postrider.ErrConflict) {
		return nil, rest.Conflict("last_secret", "it is the endpoint's last secret that does not expire; rotate it, with an overlap_ms of 0 to end it at once, or revoke one that expires")
	}
	if err != nil {
		return nil, err
	}
	s.Effects.Notify(e.ID)
	s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: e.ID})
	return nil, nil
}

// checkLeft refuses to revoke the last secret that a signature scheme of the
// endpoint can use. The store itself refuses to revoke the very last secret.
func (s *Routes) checkLeft(ctx context.Context, e postrider.Endpoint, id postrider.SecretID) error {
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(secrets, func(s postrider.Secret) bool { return s.ID == id })
	if at < 0 || len(secrets) == 1 || secrets[at].Public != "" {
		return nil
	}
	if err := e.Policy.CheckSecrets(slices.Delete(secrets, at, at+1)); err != nil {
		return rest.Conflict("last_secret", err.Error()+"; a rotation with an overlap_ms of 0 replaces it")
	}
	return nil
}

// encrypted returns a new secret of the endpoint with the key, encrypted. The
// time of its id is its creation time.
func (s *Routes) encrypted(ctx context.Context, endpoint postrider.EndpointID, key signature.Secret) (postrider.Secret, error) {
	id := store.NewID[postrider.SecretID](s.IDs)
	secret := postrider.Secret{ID: id, Endpoint: endpoint, Public: key.Public().Text(), CreatedAt: id.Time()}
	return secret, s.Vault.EncryptSecret(ctx, &secret, key.Text())
}

// New returns the secrets of a new endpoint, newest first, and their
// views for the response.
func (s *Routes) New(ctx context.Context, endpoint postrider.EndpointID, n apitypes.NewSecrets) ([]postrider.Secret, []apitypes.Secret, error) {
	keys, err := readSecrets(n)
	if err != nil {
		return nil, nil, err
	}
	secrets, views := make([]postrider.Secret, len(keys)), make([]apitypes.Secret, len(keys))
	// Oldest first, so that the ids have the order of the secrets.
	for i := len(keys) - 1; i >= 0; i-- {
		if secrets[i], err = s.encrypted(ctx, endpoint, keys[i]); err != nil {
			return nil, nil, err
		}
		views[i] = viewSecret(secrets[i], keys[i].Text())
	}
	return secrets, views, nil
}

// readSecrets returns the keys that the request gives in secret or in secrets.
// If it has neither, the result is one new random key.
func readSecrets(n apitypes.NewSecrets) ([]signature.Secret, error) {
	texts, field := n.Secrets, func(i int) string { return fmt.Sprintf("secrets[%d]", i) }
	switch {
	case n.Secret == "" && n.Secrets == nil:
		key, err := drawKey(n.KeyType)
		return []signature.Secret{key}, err
	case n.KeyType != "":
		return nil, rest.Invalid("key_type", postrider.FaultNotAllowed, "must not be there beside a secret")
	case n.Secret != "" && n.Secrets != nil:
		return nil, rest.Invalid("secrets", postrider.FaultNotAllowed, "must not be there beside secret")
	case n.Secret != "":
		texts, field = []string{n.Secret}, func(int) string { return "secret" }
	}
	if len(texts) == 0 || len(texts) > maxSecrets {
		return nil, rest.WrongCount("secrets", 1, maxSecrets, "secrets")
	}
	var keys []signature.Secret
	var faults []error
	for i, text := range texts {
		key, err := readSecret(field(i), text)
		faults = append(faults, err)
		if slices.Contains(texts[:i], text) {
			faults = append(faults, rest.Invalid(field(i), postrider.FaultRepeated, "must not repeat a secret"))
		}
		keys = append(keys, key)
	}
	return keys, errors.Join(faults...)
}

// drawKey returns a random key of the type. Empty: HMAC.
func drawKey(keyType string) (signature.Secret, error) {
	switch keyType {
	case "", typeHMAC:
		return signature.NewSecret(rand.Reader)
	case typeEd25519:
		return signature.NewPrivateKey(rand.Reader)
	}
	return signature.Secret{}, rest.Invalid("key_type", postrider.FaultNotAChoice, "must be hmac or ed25519")
}

// readSecret parses a secret that can sign requests.
func readSecret(field, text string) (signature.Secret, error) {
	key, err := signature.ParseSecret(text)
	if err != nil {
		key, err = signature.TextSecret(text)
	}
	if err != nil || key.Public().Text() == text { // a public key cannot sign
		return signature.Secret{}, rest.Invalid(field, postrider.FaultMalformed,
			"must be whsec_ and the base64 of 24 to 64 bytes, whsk_ and that of an ed25519 key pair, or 24 to 64 visible ASCII characters")
	}
	return key, nil
}
