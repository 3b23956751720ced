package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/vault"
)

// sealing is what a server seals with, and how it seals anew.
type sealing struct {
	*vault.Vault

	seals store.Seals
	home  ringHome
	log   *slog.Logger
}

// openSealing finds the sealing keys and makes sure that they are those of what
// is stored.
func openSealing(ctx context.Context, c StoreConfig, seals store.Seals, log *slog.Logger) (*sealing, error) {
	home, err := c.ringHome(ctx, seals)
	if err != nil {
		return nil, err
	}
	v, err := vault.Follow(home.read)
	if err != nil {
		return nil, err
	}
	s := &sealing{Vault: v, seals: seals, home: home, log: log}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s, s.tell(ctx, c)
}

// tell notes where the keys are. Beside the data they protect what is copied of
// it in part, as a table, but not a whole copy.
func (s *sealing) tell(ctx context.Context, c StoreConfig) error {
	s.log.InfoContext(ctx, "sealing keys are open", "newest", s.Newest().String(), "from", s.home.String())
	dsn, err := c.dsn()
	if err != nil || dsn == "" {
		return err
	}
	if _, kept := s.home.(keptRing); kept {
		s.log.WarnContext(ctx, "sealing keys are kept in the database beside what they seal, which protects partial copies only",
			"flag", "--secrets-key-file")
		return nil
	}
	stillKept, err := keepElsewhere(s.seals)
	if stillKept {
		s.log.WarnContext(ctx, "sealing keys are given from outside, but older ones are still kept in the database",
			"command", "postrider secrets rotate-key --drop-old")
	}
	return err
}

const (
	checkedRows = 10_000 // what a start looks at, at most
	resealBatch = 500
)

// check makes sure that the keys open what is stored: one value for each key
// that something is sealed with. A single one that is damaged is no reason to
// stop for all the others.
func (s *sealing) check(ctx context.Context) error {
	opened := map[vault.KeyID]bool{}
	rows := 0
	for after := (store.SealedID{}); rows < checkedRows; {
		list, err := s.seals.Sealed(ctx, after, resealBatch)
		if err != nil {
			return fmt.Errorf("look at what is sealed: %w", err)
		}
		if len(list) == 0 {
			break
		}
		for _, sealed := range list {
			if err := s.try(ctx, sealed, opened); err != nil {
				return err
			}
		}
		rows, after = rows+len(list), list[len(list)-1].ID
	}
	return nil
}

// try opens something, unless its key has opened something before.
func (s *sealing) try(ctx context.Context, sealed store.Sealed, opened map[vault.KeyID]bool) error {
	key, _ := vault.KeyOf(sealed.Bytes)
	if opened[key] {
		return nil
	}
	_, err := s.again(sealed)
	if _, unknown := errors.AsType[*vault.UnknownKeyError](err); unknown {
		return fmt.Errorf("the sealing keys of %s do not open what is stored: %w; %s", s.home, err, whereToName)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "something sealed cannot be opened", "sealed", sealed, "error", err)
	}
	opened[key] = err == nil
	return nil
}

// again returns the bytes of something sealed under the newest key.
func (s *sealing) again(sealed store.Sealed) ([]byte, error) {
	if sealed.ID.Secret.IsZero() {
		return s.ResealCredentials(sealed.ID.Endpoint, sealed.Bytes)
	}
	return s.ResealSecret(sealed.ID.Secret, sealed.Bytes)
}

// resealTime bounds a call of Reseal, so that who waits for it over HTTP does
// not give up.
const resealTime = 15 * time.Second

// Reseal implements [api.Resealer].
func (s *sealing) Reseal(ctx context.Context) (api.Resealed, error) {
	until := time.Now().Add(resealTime)
	var sum api.Resealed
	for {
		r, err := s.resealOnce(ctx, until)
		sum = api.Resealed{Key: r.Key, Sealed: r.Sealed, Resealed: sum.Resealed + r.Resealed, Unreadable: r.Unreadable, Done: r.Done}
		if err != nil || sum.Done || time.Now().After(until) {
			return sum, err
		}
	}
}

// resealOnce goes through all that is sealed. It is done where it found nothing
// of an older key, but for what no key opens.
func (s *sealing) resealOnce(ctx context.Context, until time.Time) (api.Resealed, error) {
	r := api.Resealed{Done: true}
	for after := (store.SealedID{}); ; {
		if err := s.Refresh(); err != nil {
			return r, err
		}
		if key := s.Newest().String(); key != r.Key {
			r.Done = r.Key == "" // what was looked at may be of an older key now
			r.Key = key
		}
		list, err := s.seals.Sealed(ctx, after, resealBatch)
		if err != nil {
			return r, fmt.Errorf("look at what is sealed: %w", err)
		}
		if len(list) == 0 {
			return r, nil
		}
		if err := s.resealAll(ctx, list, &r); err != nil {
			return r, err
		}
		r.Sealed, after = r.Sealed+len(list), list[len(list)-1].ID
		if time.Now().After(until) {
			r.Done = false
			return r, nil
		}
	}
}

// resealAll seals the list anew and counts it in r.
func (s *sealing) resealAll(ctx context.Context, list []store.Sealed, r *api.Resealed) error {
	var changes []store.Reseal
	for _, sealed := range list {
		if key, err := vault.KeyOf(sealed.Bytes); err == nil && key.String() == r.Key {
			continue
		}
		now, err := s.again(sealed)
		if err != nil {
			s.log.ErrorContext(ctx, "something sealed cannot be opened", "sealed", sealed, "error", err)
			r.Unreadable++
			continue
		}
		changes = append(changes, store.Reseal{ID: sealed.ID, Was: sealed.Bytes, Now: now})
	}
	if len(changes) == 0 {
		return nil
	}
	r.Done = false
	n, err := s.seals.Reseal(ctx, changes)
	if err != nil {
		return fmt.Errorf("reseal: %w", err)
	}
	r.Resealed += n
	return nil
}
