// Package secrets is the part of the API that serves the secrets of endpoints. It serves their
// public keys to everybody.
//
// An endpoint can always sign in every signature scheme of its policy: a change that would prevent
// this is refused. No response has a private key.
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
	// Reencrypt works for some seconds. The field Done of its result is false if values with older
	// keys remain. The client then repeats the request, and the next call continues with the
	// remaining values.
	Reencrypt(ctx context.Context) (apitypes.Reencrypted, error)
}

// Routes serves the secrets of endpoints.
type Routes struct {
	*rest.Shared

	Store       Store
	Vault       Vault
	Reencrypter Reencrypter
}

// Register registers the routes of an endpoint's secrets. The routes that show stored texts need
// the scope secrets:read.
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
	// defaultOverlap is the time for which the old secrets stay valid after a rotation.
	defaultOverlap = 24 * time.Hour
	// maxSecrets is the largest number of secrets in the request for a new endpoint.
	maxSecrets = 5
	// maxValid is the largest number of valid secrets of one endpoint. Every valid secret signs
	// each request, so each one makes requests larger.
	maxValid = 10
)

// The types of a secret. A text secret uses its characters as the key. Like an hmac secret, it
// signs by HMAC.
const (
	typeHMAC    = "hmac"
	typeText    = "text"
	typeEd25519 = "ed25519"
)

// viewSecret returns a secret in the form of a response. text is the plain text of the secret. For
// a private key, text is ignored and the response has only the public key.
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

// listSecrets shows the secrets of an endpoint with their texts, so that an owner can set up a
// receiver again. It shows no private keys.
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

// shownSecret returns a stored secret with its text. It does not decrypt a private key.
func (s *Routes) shownSecret(ctx context.Context, secret postrider.Secret) (apitypes.Secret, error) {
	if secret.Public != "" {
		return viewSecret(secret, ""), nil
	}
	text, err := s.Vault.DecryptSecret(ctx, secret)
	return viewSecret(secret, text), err
}

// listSecretStates lists the secrets of an endpoint without their texts. It decrypts the secrets to
// find out their types. A secret that cannot be decrypted is listed as unreadable, so that a person
// sees which secret to rotate.
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

// revealSecret shows one secret of an endpoint. The route is a POST, so that following a link or
// reloading a page does not show the secret again.
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

// rotateSecret adds a secret and lets all other secrets expire after the overlap. The new secret
// must be able to sign in every scheme of the endpoint, because after the overlap it is the only
// secret. This is checked before the write, because a rotation cannot be undone: the old secrets
// expire.
func (s *Routes) rotateSecret(
	ctx context.Context, in *rest.EndpointPath, body apitypes.SecretRotation,
) (*rest.Reply[apitypes.Secret], error) {
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
	// The policy is checked with the new secret only, because all other secrets expire.
	if err := e.Policy.CheckSecrets([]postrider.Secret{secret}); err != nil {
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

// readRotation returns the overlap and the new secret of a rotation. If the request has no secret,
// it makes a random one.
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

// checkOthers refuses a rotation that would exceed maxValid, or that repeats a valid secret. The
// limit is not exact: two concurrent rotations may both pass. That does no harm, because the limit
// only keeps the headers of requests small.
func (s *Routes) checkOthers(ctx context.Context, endpoint postrider.EndpointID, overlap time.Duration, key signature.Secret) error {
	secrets, err := s.Store.Secrets(ctx, endpoint)
	if err != nil {
		return err
	}
	if overlap > 0 && len(secrets) >= maxValid { // an overlap of 0 revokes the other secrets
		return rest.Conflict("too_many_secrets",
			fmt.Sprintf("the endpoint has %d secrets that have not expired; an overlap_ms of 0 revokes them", len(secrets)))
	}
	for _, secret := range secrets {
		// Skip a secret that cannot be decrypted: a rotation replaces it.
		if text, err := s.Vault.DecryptSecret(ctx, secret); err == nil && text == key.Text() {
			return rest.Conflict("secret_exists", "the endpoint has this secret already")
		}
	}
	return nil
}

// revokeSecret ends a secret at once. It refuses if the endpoint could then no longer sign its
// requests.
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
		return nil, rest.Conflict("last_secret",
			"it is the endpoint's last secret that does not expire; rotate it, with an overlap_ms of 0 to end it at once, or revoke one that expires")
	}
	if err != nil {
		return nil, err
	}
	s.Effects.Notify(e.ID)
	s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: e.ID})
	return nil, nil
}

// checkLeft refuses to revoke a secret if a signature scheme of the endpoint would have no secret
// left. The store itself refuses to revoke the last secret of an endpoint.
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

// encrypted returns a new encrypted secret of the endpoint with the key. Its creation time is the
// time in its id.
func (s *Routes) encrypted(ctx context.Context, endpoint postrider.EndpointID, key signature.Secret) (postrider.Secret, error) {
	id := store.NewID[postrider.SecretID](s.IDs)
	secret := postrider.Secret{ID: id, Endpoint: endpoint, Public: key.Public().Text(), CreatedAt: id.Time()}
	return secret, s.Vault.EncryptSecret(ctx, &secret, key.Text())
}

// New returns the secrets of a new endpoint, newest first, and the same secrets in the form of a
// response.
func (s *Routes) New(
	ctx context.Context, endpoint postrider.EndpointID, n apitypes.NewSecrets,
) ([]postrider.Secret, []apitypes.Secret, error) {
	keys, err := readSecrets(n)
	if err != nil {
		return nil, nil, err
	}
	secrets, views := make([]postrider.Secret, len(keys)), make([]apitypes.Secret, len(keys))
	// Make the oldest secret first, so that the ids have the order of the secrets.
	for i := len(keys) - 1; i >= 0; i-- {
		if secrets[i], err = s.encrypted(ctx, endpoint, keys[i]); err != nil {
			return nil, nil, err
		}
		views[i] = viewSecret(secrets[i], keys[i].Text())
	}
	return secrets, views, nil
}

// readSecrets returns the keys that the request has in secret or in secrets. If the request has
// neither, it returns one new random key.
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

// drawKey returns a random key of the type. An empty type means hmac.
func drawKey(keyType string) (signature.Secret, error) {
	switch keyType {
	case "", typeHMAC:
		return signature.NewSecret(rand.Reader)
	case typeEd25519:
		return signature.NewPrivateKey(rand.Reader)
	}
	return signature.Secret{}, rest.Invalid("key_type", postrider.FaultNotAChoice, "must be hmac or ed25519")
}

// readSecret parses a secret. It refuses a text that cannot sign requests.
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
