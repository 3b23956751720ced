package accounts

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// retentionRow is a retention that an account may shorten, for the page and for its form.
type retentionRow struct {
	Name  string // of the field
	Days  int    // 0: as long as the server keeps the rows
	Typed string // value in the form; empty: the server's time
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

// retention returns the rows of an account. If the person sent this form, form has its values.
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

// changeRetention changes how long the rows of an account are kept. An empty field means the
// server's time.
func changeRetention(v *page.Visit, a apitypes.Account) error {
	form := formOf(v, a)
	form.Days, form.Faults = map[string]string{}, map[string]string{}
	var change apitypes.AccountUpdate
	for _, f := range retentionFields {
		text := strings.TrimSpace(v.Form(f.name))
		form.Days[f.name] = text
		if text == "" {
			*f.of(&change.Retention) = apitypes.Null[int]()
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			form.Faults[f.name] = v.T("quota.fault")
		}
		*f.of(&change.Retention) = apitypes.Of(n)
	}
	if len(form.Faults) > 0 {
		return form.show(v, a)
	}
	_, err := v.API.ChangeAccount(v.Context, a.ID.String(), change)
	if form.Faults = v.Faulty(err); form.Faults != nil {
		return form.show(v, a)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("accounts", a.ID), page.Flash{Text: v.T("retention.done")})
}
