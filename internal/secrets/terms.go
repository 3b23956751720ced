package secrets

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/jsonx"
	"github.com/postrider/postrider/internal/store"
)

// termPurpose is the purpose of the keys that terms are made with.
const termPurpose = "postrider: search terms"

// refreshEvery is the time between two reads of the keyring by [Vault.Run]. It is shorter than the
// default Grace of a [Rotation].
const refreshEvery = 20 * time.Second

// EventTerms returns the terms of the values that the event has at the paths, by the newest key, each
// once, and at most store.MaxTerms.
func (v *Vault) EventTerms(e *postrider.Event, paths []postrider.Path) (terms []store.Term) {
	keys := v.keys.Load()
	mac := newTerms(keys.finders[keys.newest])
	for path, value := range jsonx.Values(e.Data, paths) {
		if len(terms) == store.MaxTerms {
			break
		}
		if t := mac.term(e.Account, paths[path].Text, value); !slices.Contains(terms, t) {
			terms = append(terms, t)
		}
	}
	return terms
}

// Terms returns the terms that the values have at the paths, by every key of the keyring. Events that were
// published with a key that was dropped are found by none of them.
func (v *Vault) Terms(
	ctx context.Context, account postrider.AccountID, paths []postrider.Path, values []string,
) (terms []store.Term, err error) {
	if err := v.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("make search terms: %w", err)
	}
	for _, key := range v.keys.Load().finders {
		mac := newTerms(key)
		for _, path := range paths {
			for _, value := range values {
				terms = append(terms, mac.term(account, path.Text, value))
			}
		}
	}
	return terms, nil
}

// termMaker makes terms with one key, and reuses its memory.
type termMaker struct {
	mac        hash.Hash
	input, sum []byte
}

func newTerms(key []byte) *termMaker { return &termMaker{mac: hmac.New(sha256.New, key)} }

// term returns the first 64 bits of the HMAC. A path has no zero byte, so two inputs differ if their
// paths or their values do.
func (m *termMaker) term(account postrider.AccountID, path, value string) store.Term {
	m.input = append(append(append(append(m.input[:0], account[:]...), path...), 0), value...)
	m.mac.Reset()
	m.mac.Write(m.input)
	m.sum = m.mac.Sum(m.sum[:0])
	return store.Term(binary.BigEndian.Uint64(m.sum)) //nolint:gosec // all 64 bits are used
}

// Run reads the keyring again from time to time until ctx ends, because EventTerms does not. So the terms
// of new events are soon made with the newest key.
func (s *Secrets) Run(ctx context.Context) error {
	for batch.Sleep(ctx, refreshEvery) {
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "encryption keys were not read again", "error", err)
		}
	}
	return nil
}
