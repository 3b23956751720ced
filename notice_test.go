package postrider_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

func TestNoticesOfHealth(t *testing.T) {
	t.Parallel()
	limits := postrider.DefaultHealthLimits()
	for _, tt := range []struct {
		name    string
		record  postrider.HealthInput
		kind    postrider.NoticeKind // empty: no notice
		details map[string]string
	}{
		{
			"the first warning", failingFor(6*hour, unrecorded),
			postrider.NoticeFailing,
			map[string]string{"reason": failing, "warnings": "1"},
		},
		{
			"the last warning says when it is disabled", failingFor(72*hour, warned(2, failing, 2, 48*hour)),
			postrider.NoticeDisabling,
			map[string]string{"reason": failing, "warnings": "3", "disabled_at": noon.Add(2 * days).Format(time.RFC3339)},
		},
		{
			"it is disabled", failingFor(5*days, warned(3, failing, 3, 2*days)),
			postrider.NoticeDisabled,
			map[string]string{"reason": failing, "warnings": "3"},
		},
		{
			"so many die that it is disabled in an hour", ended(10, 30, unrecorded),
			postrider.NoticeDisabling,
			map[string]string{"reason": letters, "warnings": "1", "disabled_at": noon.Add(hour).Format(time.RFC3339)},
		},
		{
			"some die", ended(70, 30, unrecorded),
			postrider.NoticeFailing,
			map[string]string{"reason": letters, "warnings": "1"},
		},
		{"it has recovered", ended(100, 0, warned(1, letters, 1, 2*hour)), postrider.NoticeRecovered, nil},
		{"a person has enabled it", ended(0, 0, disabled(2, gone, 1, 2*hour)), "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.record
			in.Endpoint, in.Account = postrider.EndpointID{1}, postrider.AccountID{2}
			health, changed := in.Assess(noon, limits)
			if !changed {
				t.Fatal("the health does not change")
			}
			var want postrider.Notice
			if tt.kind != "" {
				want = postrider.Notice{
					Account: in.Account, Kind: tt.kind, Object: in.Endpoint.String(), Occurrence: string(rune('0' + health.Number)), Details: tt.details,
				}
			}
			got, is := health.Notice(in.Health.Status, in.DisabledAt(health, limits))
			if diff := cmp.Diff(want, got); diff != "" || is != (tt.kind != "") {
				t.Errorf("notice: %v (-want +got):\n%s", is, diff)
			}
		})
	}
}

func TestNoticesOfCircuits(t *testing.T) {
	t.Parallel()
	open := postrider.Circuit{
		Endpoint: postrider.EndpointID{1}, Status: postrider.CircuitOpen, Reason: postrider.ReasonFailuresInRow, FailingSince: noon.Add(-hour),
		LastAttemptAt: noon,
	}
	n, is := open.Notice(postrider.AccountID{2}, 0, hour)
	since := noon.Add(-hour).Format(time.RFC3339)
	want := postrider.Notice{
		Account: postrider.AccountID{2}, Kind: postrider.NoticeCircuitOpen, Object: open.Endpoint.String(), Occurrence: since,
		Details: map[string]string{"reason": postrider.ReasonFailuresInRow, "failing_since": since},
	}
	if diff := cmp.Diff(want, n); diff != "" || !is {
		t.Errorf("notice: %v (-want +got):\n%s", is, diff)
	}
	closed, manual, young, starved := open, open, open, open
	closed.Status, manual.FailingSince, young.FailingSince = postrider.CircuitClosed, time.Time{}, noon.Add(-hour+1)
	starved.LastAttemptAt = noon.Add(-1)
	for name, c := range map[string]postrider.Circuit{"closed": closed, "opened by a person": manual, "young": young, "starved": starved} {
		if _, is := c.Notice(postrider.AccountID{2}, 0, hour); is {
			t.Errorf("a circuit that is %s has a notice", name)
		}
	}
}

func TestNoticesOfFullBacklogs(t *testing.T) {
	t.Parallel()
	full := postrider.EndpointBacklog{Endpoint: postrider.EndpointID{1}, Account: postrider.AccountID{2}, Limit: 1000, Waiting: 1000}
	want := postrider.Notice{
		Account: full.Account, Kind: postrider.NoticeBacklogFull, Object: full.Endpoint.String(), Occurrence: "2026-11-23T00:00:00Z",
		Details: map[string]string{"limit": "1000"},
	}
	for _, at := range []string{"2026-11-23T00:00:00Z", "2026-11-23T23:59:59Z"} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, full.Notice(now)); diff != "" {
			t.Errorf("notice at %s (-want +got):\n%s", at, diff)
		}
	}
}

func TestAnEndpointThatWantsOperationalEvents(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[postrider.Pattern]bool{
		"*": false, "order.*": false, "postriders.*": false, "postrider.*": true, "postrider.endpoint.*": true,
		"postrider.endpoint.disabled": true,
	} {
		e := postrider.Endpoint{EventTypes: []postrider.Pattern{"order.created", pattern}}
		if got := e.WantsOperational(); got != want {
			t.Errorf("with the pattern %s: %v, want %v", pattern, got, want)
		}
	}
}

func TestNoticesOfADisk(t *testing.T) {
	t.Parallel()
	var last postrider.Notice
	now := noon
	for _, step := range []struct {
		percent    float64
		kind       postrider.NoticeKind // empty: no notice
		used       string
		occurrence time.Duration // time since noon; each step takes a minute
	}{
		{89, "", "", 0},
		{90, "", "", 0},
		{90.1, postrider.NoticeDiskFilling, "90.1", 2 * time.Minute},
		{94.9, "", "", 0},
		{95, "", "", 0},
		{96, postrider.NoticeDiskFull, "96.0", 2 * time.Minute},
		{92, "", "", 0},
		{97, "", "", 0},
		{89, "", "", 0},
		{91, "", "", 0},
		{85, "", "", 0},
		{0, "", "", 0}, // the disk could not be measured
		{84.9, postrider.NoticeDiskRecovered, "84.9", 2 * time.Minute},
		{50, "", "", 0},
		{100, postrider.NoticeDiskFull, "100.0", 14 * time.Minute},
		{91, "", "", 0},
		{80, postrider.NoticeDiskRecovered, "80.0", 14 * time.Minute},
		{93, postrider.NoticeDiskFilling, "93.0", 17 * time.Minute},
		{12.34, postrider.NoticeDiskRecovered, "12.3", 17 * time.Minute},
	} {
		got, is := postrider.DiskUse(step.percent/100).Notice("/data", last, now)
		var want postrider.Notice
		if step.kind != "" {
			want = postrider.Notice{
				Kind: step.kind, Object: "/data", Occurrence: noon.Add(step.occurrence).Format(time.RFC3339),
				Details: map[string]string{"used_percent": step.used},
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || is != (step.kind != "") {
			t.Errorf("at %v %%, %v after noon: %t, and the notice differs: %s", step.percent, now.Sub(noon), is, diff)
		}
		if is {
			last = got
		}
		now = now.Add(time.Minute)
	}
}

func TestNoticesOfAQuota(t *testing.T) {
	t.Parallel()
	account := postrider.AccountID{1}
	midnight := noon.Truncate(days).Add(days)
	for _, tt := range []struct {
		used       postrider.QuotaError
		occurrence string
		details    map[string]string
	}{
		{
			postrider.QuotaError{Account: account, Quota: postrider.QuotaBytes, Limit: 5000, EndsAt: midnight},
			"bytes_per_day " + noon.Format(time.DateOnly),
			map[string]string{"quota": "bytes_per_day", "limit": "5000", "ends_at": midnight.Format(time.RFC3339)},
		},
		{
			postrider.QuotaError{Account: account, Quota: postrider.QuotaEvents, Limit: 7, EndsAt: noon.Add(time.Second)},
			"events_per_second " + noon.Format(time.DateOnly),
			map[string]string{"quota": "events_per_second", "limit": "7"},
		},
		{
			postrider.QuotaError{Account: account, Quota: postrider.QuotaEndpoints, Limit: 3},
			"endpoints " + noon.Format(time.DateOnly),
			map[string]string{"quota": "endpoints", "limit": "3"},
		},
	} {
		want := postrider.Notice{
			Account: account, Kind: postrider.NoticeQuota, Object: account.String(), Occurrence: tt.occurrence, Details: tt.details,
		}
		if diff := cmp.Diff(want, tt.used.Notice(noon)); diff != "" {
			t.Errorf("%s: %s", tt.used.Quota, diff)
		}
	}
}
