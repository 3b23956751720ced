package app_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

func TestAListOfExpungesThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	r := startWith(t, t.TempDir(), map[string]string{"POSTRIDER_EXPUNGE_LIST": "/nonexistent/list"})
	r.subscribe(t, testkit.NewReceiver(t, testkit.Status(http.StatusOK)).URL)
	event := r.publish(t)
	_, err := r.api.CreateExpunge(t.Context(), apitypes.ExpungeCreate{Event: event.String()})
	problem, ok := errors.AsType[*client.Error](err)
	if !ok || problem.Status != http.StatusServiceUnavailable || problem.Code != "expunge_list_unwritable" ||
		!strings.Contains(problem.Detail, "--expunge-list") {
		t.Errorf("an expunge = %v, want a 503 that names the setting", err)
	}
	if n := sample(r.metrics(t), `postrider_chore_runs_total{chore="check_expunge_list",result="error"}`); n < 1 {
		t.Errorf("the metrics have %v failures of the list", n)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.log.String(), "expunges are refused") {
		t.Error("the log does not warn")
	}
}
