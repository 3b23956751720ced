package apitypes

import "github.com/postrider/postrider"

// NewSecrets says which secrets a new endpoint gets: those in the request, or one that the server
// makes.
type NewSecrets struct {
	Secret  string   `json:"secret,omitempty" minLength:"1" doc:"Secret to use: whsec_…, whsk_…, or 24 to 64 visible ASCII characters. Default: the server makes one."`
	Secrets []string `json:"secrets,omitempty" nullable:"false" doc:"Several secrets to use, the newest first."`
	KeyType string   `json:"key_type,omitempty" enum:"hmac,ed25519" doc:"Type of the secret to make; default hmac. Receivers verify ed25519 with the public key."`
}

// Secret is a key that signs an endpoint's requests.
type Secret struct {
	ID        postrider.SecretID `json:"id"`
	Type      string             `json:"type" enum:"hmac,text,ed25519"`
	Secret    *string            `json:"secret" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" doc:"Text of the secret, which the receiver verifies with. Null for ed25519, whose receivers use public_key."`
	PublicKey *string            `json:"public_key" example:"whpk_SzU1UMvz8UQGmFfiOFDIt5PPWL1YBVNcqaKlSF28kVM=" doc:"Public key of an ed25519 secret. Null for other types."`
	CreatedAt Time               `json:"created_at" format:"date-time"`
	ExpiresAt *Time              `json:"expires_at" format:"date-time" doc:"Time when the secret stops signing. Null: it signs until it is rotated."`
}

// SecretState is a secret of an endpoint without its text.
type SecretState struct {
	ID        postrider.SecretID `json:"id"`
	Type      *string            `json:"type" enum:"hmac,text,ed25519" doc:"Null: the secret cannot be decrypted."`
	State     string             `json:"state" enum:"current,previous,unreadable" doc:"current: it signs until it is rotated. previous: it signs until expires_at. unreadable: the server has no key that decrypts it, so it does not sign."`
	PublicKey *string            `json:"public_key" doc:"Public key of an ed25519 secret. Null for other types."`
	CreatedAt Time               `json:"created_at" format:"date-time"`
	ExpiresAt *Time              `json:"expires_at" format:"date-time" doc:"Time when the secret stops signing. Null: it signs until it is rotated."`
}

// SecretRotation is a request to rotate an endpoint's secret.
type SecretRotation struct {
	Secret    string `json:"secret,omitempty" minLength:"1" doc:"Secret to use, as for a new endpoint. Default: the server makes one."`
	KeyType   string `json:"key_type,omitempty" enum:"hmac,ed25519" doc:"Type of the secret to make; default hmac."`
	OverlapMS *int64 `json:"overlap_ms,omitempty" doc:"How long the old secrets sign beside the new one, at most 30 days; default 24 hours. 0 revokes them at once."`
}

// PublicKey is a key with which receivers verify signatures of a private key.
type PublicKey struct {
	ID        postrider.SecretID `json:"id"` // id of the secret
	PublicKey string             `json:"public_key"`
	CreatedAt Time               `json:"created_at"`
	ExpiresAt *Time              `json:"expires_at"`
}

// PublicKeys is one page of public keys. Receivers read it without an API key.
type PublicKeys struct {
	Keys       []PublicKey `json:"keys"`
	NextCursor *string     `json:"next_cursor"`
}

// Reencrypted is the result of one request to re-encrypt the stored secrets.
type Reencrypted struct {
	Key         string `json:"key" doc:"Id of the newest encryption key."`
	Checked     int    `json:"checked" doc:"Number of secrets and credentials that the last pass checked."`
	Reencrypted int    `json:"reencrypted" doc:"Number of them that this request encrypted again with the newest key."`
	Unreadable  int    `json:"unreadable" doc:"Number of them that no encryption key decrypts. The server's log names them."`
	Done        bool   `json:"done" doc:"Whether everything that can be read is encrypted with the newest key. False: repeat the request."`
}
