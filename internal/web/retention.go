package web

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
)

// retentionRow is what an account keeps for a shorter time than the server, as its page shows it
// and as its form has it.
type retentionRow struct {
	Name  string // of the field
	Days  int    // 0: as long as the server keeps it
	Typed string // what the form has; empty: the server's time
	Fault string
}

// retentionFields are the fields of a retention in the order of the page.
var retentionFields = []struct {
	name string
	of   func(*apitypes.Retention) *apitypes.Optional[int]
}{
	{"keep_events_days", func(r *apitypes.Retention) *apitypes.Optional[int] { return &r.KeepEventsDays }},
	{"keep_attempts_days", func(r *apitypes.Retention) *apitypes.Optional[int] { return &r.KeepAttemptsDays }},
	{"keep_bodies_days", func(r *apitypes.Retention) *apitypes.Optional[int] { return &r.KeepBodiesDays }},
	{"keep_idempotency_keys_days", func(r *apitypes.Retention) *apitypes.Optional[int] { return &r.KeepIdempotencyKeysDays }},
}

// retention returns the rows of an account. form has what a person has sent, if it was this form.
func retention(a apitypes.Account, form accountForm) (rows []retentionRow) {
	for _, f := range retentionFields {
		row := retentionRow{Name: f.name, Days: f.of(&a.Retention).Value(), Typed: form.Days[f.name], Fault: form.Faults[f.name]}
		if form.Days == nil && row.Days > 0 {
			row.Typed = strconv.Itoa(row.Days)
		}
		rows = append(rows, row)
	}
	return rows
}

// changeRetention changes how long what belongs to an account is kept. An empty field is the
// server's time.
func changeRetention(v *visit) error {
	a, err := v.api.Account(v.ctx, v.r.PathValue("account"))
	if err != nil {
		return err
	}
	form := accountForm{Name: a.Name, Days: map[string]string{}, Faults: map[string]string{}}
	if a.UID != nil {
		form.UID = *a.UID
	}
	var change apitypes.AccountUpdate
	for _, f := range retentionFields {
		text := strings.TrimSpace(v.form(f.name))
		form.Days[f.name] = text
		if text == "" {
			*f.of(&change.Retention) = apitypes.Null[int]()
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			form.Faults[f.name] = v.t("quota.fault")
		}
		*f.of(&change.Retention) = apitypes.Of(n)
	}
	if len(form.Faults) > 0 {
		return v.showAccountWith(a, form, v.portalLink(a))
	}
	_, err = v.api.ChangeAccount(v.ctx, a.ID.String(), change)
	var refused bool
	if form.Faults, refused = v.faulty(err); refused {
		return v.showAccountWith(a, form, v.portalLink(a))
	}
	if err != nil {
		return err
	}
	return v.done(v.path("accounts", a.ID), flash{Text: v.t("retention.done")})
}
