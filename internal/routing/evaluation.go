package routing

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
)

const (
	// EvaluationPercent is how much of the time of one core the filters of an account may take, on
	// each node.
	EvaluationPercent = 20
	// evaluationAtOnce is how long they may take beyond that, before publishes are refused.
	evaluationAtOnce = 100 * time.Millisecond
	// sliceTime is how long a fan-out job compares before it rests.
	sliceTime = 500 * time.Microsecond
)

// evaluation counts the time that the filters of an account took. It is a bucket that leaks: what is
// in it shrinks by EvaluationPercent of the time that passes. The zero value is empty.
type evaluation struct {
	turn sync.Mutex // held by the one publish that is matched before its commit

	mu    sync.Mutex
	taken time.Duration // at the time at
	at    time.Time
}

// add counts the time since begun.
func (v *evaluation) add(begun time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leak()
	v.taken += v.at.Sub(begun)
}

// wait returns how long publishes must wait; 0: not at all.
func (v *evaluation) wait() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.taken == 0 { // as of every account without filters
		return 0
	}
	v.leak()
	return max(0, v.taken-evaluationAtOnce) * 100 / EvaluationPercent
}

// late makes publishes wait for two seconds, unless they must wait for longer already.
func (v *evaluation) late() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leak()
	v.taken = max(v.taken, evaluationAtOnce+2*time.Second*EvaluationPercent/100)
}

func (v *evaluation) leak() {
	now := time.Now()
	v.taken = max(0, v.taken-now.Sub(v.at)*EvaluationPercent/100)
	v.at = now
}

// EvaluationWait returns how long the account must wait until it may publish again, because its filters
// took more than their share of time; 0: it may publish now.
func (x *Table) EvaluationWait(id postrider.AccountID) time.Duration {
	if v := x.evaluationOf(id); v != nil {
		return v.wait()
	}
	return 0
}

// Turn waits for the turn of a publish that must be matched before its commit, because endpoints of its
// account have filters or conditions; false: none has. The publishes of an account take turns, so they
// keep one core busy at most. The caller calls end after it has matched.
func (x *Table) Turn(id postrider.AccountID) (end func(), filtered bool) {
	x.mu.RLock()
	s := x.accounts[id]
	filtered = s != nil && s.filtered > 0
	x.mu.RUnlock()
	if !filtered {
		return nil, false
	}
	s.evaluation.turn.Lock()
	return s.evaluation.turn.Unlock, true
}

// slice is what a fan-out job compares between two rests.
type slice struct {
	of    *evaluation // nil: the account has no endpoints any more
	begun time.Time
}

// rest counts the slice, and rests so long that slices take EvaluationPercent of the time.
func (s *slice) rest(ctx context.Context) {
	worked := time.Since(s.begun)
	if s.of != nil {
		s.of.add(s.begun)
	}
	batch.Sleep(ctx, worked*(100-EvaluationPercent)/EvaluationPercent)
	s.begun = time.Now()
}

// FanOutLate says that a fan-out job of the account is late, because its filters take long. The account's
// publishes are refused for a moment. Otherwise ever more jobs could wait.
func (x *Table) FanOutLate(id postrider.AccountID) {
	if v := x.evaluationOf(id); v != nil {
		v.late()
	}
}

// Edition returns how often endpoints of an account have changed. While it stays the same, a match has
// the same result.
func (x *Table) Edition(id postrider.AccountID) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.accounts[id]; s != nil {
		return s.edition
	}
	return 0
}

// evaluationOf returns the count of an account; nil: it has no endpoints.
func (x *Table) evaluationOf(id postrider.AccountID) *evaluation {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.accounts[id]; s != nil {
		return &s.evaluation
	}
	return nil
}
