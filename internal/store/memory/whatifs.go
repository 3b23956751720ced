package memory

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type whatIf struct {
	store.WhatIf
	token postrider.Token
	due   time.Time // when the job is due; if it is leased, the end of the lease
}

// PutWhatIf implements [store.WhatIfs].
func (s *Store) PutWhatIf(_ context.Context, w store.WhatIf) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whatIfs[w.Account].Running {
		return fmt.Errorf("put what-if of account %s: the last one runs: %w", w.Account, postrider.ErrConflict)
	}
	w.Running, w.ChangedAt, w.Document = true, stored(s.wall()), bytes.Clone(w.Document)
	s.whatIfs[w.Account] = whatIf{WhatIf: w, due: s.now()}
	return nil
}

// WhatIf implements [store.WhatIfs].
func (s *Store) WhatIf(_ context.Context, account postrider.AccountID) (store.WhatIf, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.whatIfs[account]
	if !ok {
		return store.WhatIf{}, fmt.Errorf("what-if of account %s: %w", account, postrider.ErrNotFound)
	}
	w.Document = bytes.Clone(w.Document)
	return w.WhatIf, nil
}

// ClaimWhatIf implements [store.WhatIfs].
func (s *Store) ClaimWhatIf(_ context.Context, token postrider.Token, lease time.Duration) (store.WhatIf, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first whatIf
	for _, w := range s.whatIfs {
		if w.Running && !w.due.After(s.now()) && (!first.Running || w.due.Before(first.due)) {
			first = w
		}
	}
	if !first.Running {
		return store.WhatIf{}, fmt.Errorf("claim what-if: %w", postrider.ErrNotFound)
	}
	first.token, first.due = token, s.now().Add(lease)
	s.whatIfs[first.Account] = first
	first.Document = bytes.Clone(first.Document)
	return first.WhatIf, nil
}

// NoteWhatIf implements [store.WhatIfs].
func (s *Store) NoteWhatIf(_ context.Context, n store.NoteWhatIf) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.whatIfs[n.Account]
	if !ok || w.token != n.Token {
		return fmt.Errorf("what-if of account %s: %w", n.Account, postrider.ErrFenced)
	}
	w.Running, w.ChangedAt, w.Document, w.due = !n.Ended, stored(s.wall()), bytes.Clone(n.Document), s.now().Add(n.Wait)
	s.whatIfs[n.Account] = w
	return nil
}

// DeleteWhatIf implements [store.WhatIfs].
func (s *Store) DeleteWhatIf(_ context.Context, account postrider.AccountID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.whatIfs[account]; !ok {
		return fmt.Errorf("what-if of account %s: %w", account, postrider.ErrNotFound)
	}
	delete(s.whatIfs, account)
	return nil
}
