package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// WhatIfs keeps jobs that compare archived events with a change of a subscription. The API begins and
// runs them. An account has at most one.
type WhatIfs interface {
	// PutWhatIf stores a new job, which is due at once. It replaces the last job of the account if that has
	// ended. Otherwise it stores nothing, and the error is postrider.ErrConflict.
	PutWhatIf(ctx context.Context, w WhatIf) error

	// WhatIf returns the job of an account, or postrider.ErrNotFound.
	WhatIf(ctx context.Context, account postrider.AccountID) (WhatIf, error)

	// ClaimWhatIf leases the job that has been due for longest. It is due again when its lease has ended. If
	// no job is due, the error is postrider.ErrNotFound.
	ClaimWhatIf(ctx context.Context, token postrider.Token, lease time.Duration) (WhatIf, error)

	// NoteWhatIf stores what a step of a job has found, and gives the job back. Repeated, it changes nothing.
	// If the job has another token or is gone, it stores nothing and returns postrider.ErrFenced.
	NoteWhatIf(ctx context.Context, n NoteWhatIf) error

	// DeleteWhatIf deletes the job of an account, whether it runs or has ended. If there is none, the error
	// is postrider.ErrNotFound.
	DeleteWhatIf(ctx context.Context, account postrider.AccountID) error
}

// WhatIf is a job that compares archived events with a change of a subscription.
type WhatIf struct {
	Account   postrider.AccountID
	Endpoint  postrider.EndpointID
	Running   bool      // false: it has ended
	ChangedAt time.Time // the end of its last step, or when it was stored; set by the store
	Document  []byte    // JSON: what is compared, how far, and the result so far
}

// NoteWhatIf is the result of a step of a job.
type NoteWhatIf struct {
	Account  postrider.AccountID
	Token    postrider.Token
	Document []byte
	Ended    bool
	Wait     time.Duration // if not Ended: the time until the job is due
}

// WhatIfsKept is how long a job is kept after its last step.
const WhatIfsKept = time.Hour
