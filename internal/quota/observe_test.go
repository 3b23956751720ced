package quota_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/quota"
)

func TestARefusalIsReportedWithItsAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{BytesPerDay: 100})
		var reported []string
		m := quota.New(w.accepting, w.Store, quota.Options{Hooks: observe.Hooks{
			Refused:   func(r observe.Refused) { reported = append(reported, r.Err.Error()) },
			QuotaUsed: func(e *postrider.QuotaError) { reported = append(reported, string(e.Quota), e.Account.String()) },
		}})
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, bytes := range []int{60, 60, 40} {
			w.publish(m, acme, bytes)
		}
		if want := []string{"the quota bytes_per_day of the account, 100, is used up", "bytes_per_day", acme.String()}; !slices.Equal(reported,
			want) {
			t.Errorf("reported %q, want %q", reported, want)
		}
	})
}
