package accounts

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// quotaRow is a limit of an account, for the page and for its form.
type quotaRow struct {
	Name  string // of the field
	Holds *int64 // nil: no limit
	Used  string // empty: nothing is counted
	Typed string // value in the form; empty: the default of the server
	Fault string
}

// quotaFields has the limits in the order of the page, with the field of each limit in a response
// and in a change.
var quotaFields = []struct {
	name string
	of   func(*apitypes.QuotaLimits) *int64
	to   func(*apitypes.QuotasUpdate) *apitypes.Optional[int64]
}{
	{
		"events_per_second", func(l *apitypes.QuotaLimits) *int64 { return l.EventsPerSecond },
		func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.EventsPerSecond },
	},
	{
		"burst", func(l *apitypes.QuotaLimits) *int64 { return l.Burst },
		func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.Burst },
	},
	{
		"bytes_per_day", func(l *apitypes.QuotaLimits) *int64 { return l.BytesPerDay },
		func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.BytesPerDay },
	},
	{
		"endpoints", func(l *apitypes.QuotaLimits) *int64 { return l.Endpoints },
		func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.Endpoints },
	},
	{
		"backlog", func(l *apitypes.QuotaLimits) *int64 { return l.Backlog },
		func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.Backlog },
	},
}

// quotas returns the limits of an account. typed has the values of a form that was sent; nil: the
// form shows the stored values.
func quotas(v *page.Visit, a apitypes.Account, typed, faults map[string]string) ([]quotaRow, error) {
	q, err := v.API.AccountQuotas(v.Context, a.ID.String())
	if err != nil {
		return nil, err
	}
	var rows []quotaRow
	for _, f := range quotaFields {
		row := quotaRow{Name: f.name, Holds: f.of(&q.Limits), Typed: typed[f.name], Fault: faults[f.name]}
		if own := f.of(&q.Own); own != nil && typed == nil {
			row.Typed = strconv.FormatInt(*own, 10)
		}
		switch {
		case f.name == "burst" && q.Used.EventsNow != nil:
			row.Used = v.T("quota.left", "n", *q.Used.EventsNow)
		case f.name == "bytes_per_day" && q.Used.BytesToday != nil:
			row.Used = v.T("quota.today", "n", *q.Used.BytesToday)
		case f.name == "endpoints":
			row.Used = v.T("quota.used", "n", q.Used.Endpoints)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// changeQuotas changes the limits of an account. An empty field means the default of the server.
func changeQuotas(v *page.Visit, a apitypes.Account) error {
	form := formOf(v, a)
	form.Limits, form.Faults = map[string]string{}, map[string]string{}
	var change apitypes.QuotasUpdate
	for _, f := range quotaFields {
		text := strings.TrimSpace(v.Form(f.name))
		form.Limits[f.name] = text
		if text == "" {
			*f.to(&change) = apitypes.Null[int64]()
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			form.Faults[f.name] = v.T("quota.fault")
		}
		*f.to(&change) = apitypes.Of(n)
	}
	if len(form.Faults) > 0 {
		return form.show(v, a)
	}
	_, err := v.API.ChangeAccountQuotas(v.Context, a.ID.String(), change)
	if form.Faults = v.Faulty(err); form.Faults != nil {
		return form.show(v, a)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("accounts", a.ID), page.Flash{Text: v.T("quota.done")})
}
