package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/doctor/facts"
)

// TestDoctorKnowsAServerOfOurs checks that a running server is no fault of the set-up that it runs
// with.
func TestDoctorKnowsAServerOfOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := start(t, dir)
	api, ops := server.app.Addr().String(), server.app.OpsAddr().String()
	settings, sources := configtest.Parse(t, nil, "--data-dir", dir, "--listen="+api, "--ops-listen="+ops)
	report := facts.Examine(t.Context(), settings, sources.Check(settings.Validate), facts.Checkup{Within: time.Minute, Resolve: "localhost"})
	checks := map[doctor.Name]doctor.Check{}
	for _, c := range report.Checks {
		checks[c.Name] = c
	}
	for name, found := range map[doctor.Name]string{
		doctor.ListenAPI: "in use by a Postrider server", doctor.ListenOps: "in use by a Postrider server", doctor.InUse: "a server runs",
	} {
		if c := checks[name]; c.Status != doctor.OK || !strings.Contains(c.Found, found) {
			t.Errorf("%s is %+v, want ok: %q", name, c, found)
		}
	}
}
