package web

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
)

// quotaRow is a limit of an account, as its page shows it and as its form has it.
type quotaRow struct {
	Name  string // of the field
	Holds *int64 // nil: no limit
	Used  string // empty: nothing is counted
	Typed string // what the form has; empty: the default of the server
	Fault string
}

// quotaFields are the limits in the order of the page: each in the limits of a response, and in
// a change.
var quotaFields = []struct {
	name string
	of   func(*apitypes.QuotaLimits) *int64
	to   func(*apitypes.QuotasUpdate) *apitypes.Optional[int64]
}{
	{"events_per_second", func(l *apitypes.QuotaLimits) *int64 { return l.EventsPerSecond }, func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.EventsPerSecond }},
	{"burst", func(l *apitypes.QuotaLimits) *int64 { return l.Burst }, func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.Burst }},
	{"bytes_per_day", func(l *apitypes.QuotaLimits) *int64 { return l.BytesPerDay }, func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.BytesPerDay }},
	{"endpoints", func(l *apitypes.QuotaLimits) *int64 { return l.Endpoints }, func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.Endpoints }},
	{"backlog", func(l *apitypes.QuotaLimits) *int64 { return l.Backlog }, func(u *apitypes.QuotasUpdate) *apitypes.Optional[int64] { return &u.Backlog }},
}

// quotas returns the limits of an account. typed is what a person has sent; nil: the form shows
// what is set.
func (v *visit) quotas(a apitypes.Account, typed, faults map[string]string) ([]quotaRow, error) {
	q, err := v.api.AccountQuotas(v.ctx, a.ID.String())
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
			row.Used = v.t("quota.left", "n", *q.Used.EventsNow)
		case f.name == "bytes_per_day" && q.Used.BytesToday != nil:
			row.Used = v.t("quota.today", "n", *q.Used.BytesToday)
		case f.name == "endpoints":
			row.Used = v.t("quota.used", "n", q.Used.Endpoints)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// changeQuotas changes the limits of an account. An empty field is the default of the server.
func changeQuotas(v *visit) error {
	a, err := v.api.Account(v.ctx, v.r.PathValue("account"))
	if err != nil {
		return err
	}
	form := accountForm{Name: a.Name, Limits: map[string]string{}, Faults: map[string]string{}}
	if a.UID != nil {
		form.UID = *a.UID
	}
	var change apitypes.QuotasUpdate
	for _, f := range quotaFields {
		text := strings.TrimSpace(v.form(f.name))
		form.Limits[f.name] = text
		if text == "" {
			*f.to(&change) = apitypes.Null[int64]()
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			form.Faults[f.name] = v.t("quota.fault")
		}
		*f.to(&change) = apitypes.Of(n)
	}
	if len(form.Faults) > 0 {
		return v.showAccountWith(a, form, v.portalLink(a))
	}
	_, err = v.api.ChangeAccountQuotas(v.ctx, a.ID.String(), change)
	var refused bool
	if form.Faults, refused = v.faulty(err); refused {
		return v.showAccountWith(a, form, v.portalLink(a))
	}
	if err != nil {
		return err
	}
	return v.done(v.path("accounts", a.ID), flash{Text: v.t("quota.done")})
}
