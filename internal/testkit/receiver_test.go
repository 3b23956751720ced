package testkit_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/testkit"
)

func post(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/hooks", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

func TestReceiverRecordsAndAnswersInTurn(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Statuses(500, 200))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for i, want := range []int{500, 200, 200} {
		if got := post(t, &http.Client{Transport: transport}, r.URL); got != want {
			t.Errorf("answer %d = %d, want %d", i+1, got, want)
		}
	}
	for i, got := range r.Wait(t, 3) {
		if got.Number != i+1 || got.Method != http.MethodPost || got.Target != "/hooks" || string(got.Body) != "body" {
			t.Errorf("request %d = %+v", i+1, got)
		}
	}
}

func TestPipeReceiverWorksInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, dial := testkit.NewPipeReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
			time.Sleep(time.Hour) // virtual time of the bubble
			w.WriteHeader(http.StatusAccepted)
		})
		transport := &http.Transport{DialContext: dial}
		start := time.Now()
		if got := post(t, &http.Client{Transport: transport}, r.URL); got != http.StatusAccepted {
			t.Errorf("answer = %d", got)
		}
		transport.CloseIdleConnections()
		if took := time.Since(start); took != time.Hour {
			t.Errorf("took %v, want 1h", took)
		}
		r.Only(t)
	})
}
