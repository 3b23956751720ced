package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// All statements but the claim walk the primary key.
const (
	putWhatIfSQL = `
	insert into what_ifs (account, endpoint, document, due_at, changed_at)
	values (@account, @endpoint, @document, @now, now())
	on conflict (account) do update
	set endpoint = excluded.endpoint, document = excluded.document, token = null, due_at = excluded.due_at, changed_at = excluded.changed_at
	where what_ifs.due_at is null`
	noteWhatIfSQL = `
	update what_ifs
	set document = @document, due_at = @due, changed_at = now()
	where account = @account and token = @token`
	deleteWhatIfSQL = `delete from what_ifs where account = @account`

	whatIfColumns = `account, endpoint, due_at is not null, changed_at, document`
	whatIfSQL     = `
	select ` + whatIfColumns + `
	from what_ifs
	where account = @account`

	// With "skip locked" several nodes can claim at once. The statement walks what_ifs_due_at.
	claimWhatIfSQL = `
	with due as materialized (
		select account
		from what_ifs
		where due_at <= @now
		order by due_at
		limit 1
		for update skip locked
	)
	update what_ifs
	set token = @token, due_at = @until
	where account in (select account from due)
	returning ` + whatIfColumns
)

func scanWhatIf(row Row, w *store.WhatIf) error {
	return row.Scan(&w.Account, &w.Endpoint, &w.Running, &w.ChangedAt, &w.Document)
}

// PutWhatIf stores a new job; see [store.WhatIfs]. It is not repeated when its fate is unknown, because
// it would find its own job running.
func (v Verbs) PutWhatIf(ctx context.Context, w store.WhatIf) (err error) {
	defer v.calls.Begin("PutWhatIf").End(&err, "put what-if of account %s", w.Account)
	n, err := v.db.Exec(ctx, Once, Query{putWhatIfSQL, Args{
		"account": w.Account, "endpoint": w.Endpoint, "document": string(w.Document), "now": v.db.Clock().Now(),
	}})
	if err == nil && n == 0 {
		err = fmt.Errorf("the last one runs: %w", postrider.ErrConflict)
	}
	return err
}

// WhatIf returns the job of an account; see [store.WhatIfs].
func (v Verbs) WhatIf(ctx context.Context, account postrider.AccountID) (w store.WhatIf, err error) {
	defer v.calls.Begin("WhatIf").End(&err, "read what-if of account %s", account)
	return one(ctx, v.db, Query{whatIfSQL, Args{"account": account}}, scanWhatIf)
}

// ClaimWhatIf leases a job; see [store.WhatIfs].
func (v Verbs) ClaimWhatIf(ctx context.Context, token postrider.Token, lease time.Duration) (w store.WhatIf, err error) {
	defer v.calls.Begin("ClaimWhatIf").End(&err, "claim what-if")
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		w, err = one(ctx, tx, Query{claimWhatIfSQL, Args{"token": token, "now": tx.Now(), "until": tx.Now().Add(lease)}}, scanWhatIf)
		return err
	})
	return w, err
}

// NoteWhatIf stores a step of a job; see [store.WhatIfs].
func (v Verbs) NoteWhatIf(ctx context.Context, n store.NoteWhatIf) (err error) {
	defer v.calls.Begin("NoteWhatIf").End(&err, "note what-if of account %s", n.Account)
	var due time.Time
	if !n.Ended {
		due = v.db.Clock().Now().Add(n.Wait)
	}
	changed, err := v.db.Exec(ctx, Repeatable, Query{noteWhatIfSQL, Args{
		"account": n.Account, "token": n.Token, "document": string(n.Document), "due": due,
	}})
	if err == nil && changed == 0 {
		err = postrider.ErrFenced
	}
	return err
}

// DeleteWhatIf deletes the job of an account; see [store.WhatIfs].
func (v Verbs) DeleteWhatIf(ctx context.Context, account postrider.AccountID) (err error) {
	defer v.calls.Begin("DeleteWhatIf").End(&err, "delete what-if of account %s", account)
	return found(v.db.Exec(ctx, Once, Query{deleteWhatIfSQL, Args{"account": account}}))
}
