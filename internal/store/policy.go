package store

import (
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider"
)

// EncodePolicy returns the JSON document that stores keep of a policy.
func EncodePolicy(p postrider.Policy) ([]byte, error) {
	document, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return document, nil
}

// DecodePolicy reads a document of [EncodePolicy]. Fields that it does not
// have, because they are newer than it, get their defaults; it always has the
// retry policy.
func DecodePolicy(document []byte) (postrider.Policy, error) {
	p := postrider.DefaultPolicy()
	p.Retry = postrider.RetryPolicy{} // a list of delays must not keep the default preset's name
	if err := json.Unmarshal(document, &p); err != nil {
		return postrider.Policy{}, fmt.Errorf("decode policy: %w", err)
	}
	return p, nil
}
