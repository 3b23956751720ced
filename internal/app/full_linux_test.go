package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/testkit"
)

// mounted returns a folder with a file system of the given size.
func mounted(t *testing.T, size string) string {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return disk
}

// TestAFullDiskIsWaitedFor fills the disk of a server on SQLite before the server starts, and while
// it runs. The server lives, is not ready and says why, refuses publishes, and recovers by itself
// when there is space.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	if _, outside := testkit.Alone(t); outside {
		return
	}
	testkit.NewInternet(t, testkit.Zone{}, nil, nil)
	disk := mounted(t, "16m")
	ballast := filepath.Join(disk, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if n, err := io.Copy(f, zeros{}); err == nil {
			t.Fatalf("the disk took %d bytes", n)
		}
	}
	free := func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))

	fill()
	r := opening(t, filepath.Join(disk, "data"))
	r.notReady(t, "the store cannot be opened")
	free()
	r.opened(t)
	r.subscribe(t, receiver.URL)
	r.delivers(t)

	fill()
	r.refuses(t)
	eventually(t, "readyz says that publishes are refused", func() bool {
		_, text := r.ready(t)
		return strings.Contains(text, "publishes are refused")
	})
	free()
	r.opened(t)
	r.delivers(t)
	testkit.Report(t, nil)
}

// TestDeliveriesAreRecordedWhileTheDiskIsFull fills the disk while twenty attempts are in flight.
// The server deletes its reserve, so that the results of the attempts are recorded. It refuses
// publishes until there is space.
func TestDeliveriesAreRecordedWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	if _, outside := testkit.Alone(t); outside {
		return
	}
	testkit.NewInternet(t, testkit.Zone{}, nil, nil)
	disk := mounted(t, "256m")
	answer := make(chan struct{})
	receiver := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
		<-answer
		w.WriteHeader(http.StatusOK)
	})
	r := opening(t, filepath.Join(disk, "data"))
	r.opened(t)
	endpoint := r.subscribe(t, receiver.URL)
	change := apitypes.EndpointUpdate{Policy: apitypes.Policy{Concurrency: apitypes.Of(20)}}
	if _, err := r.api.ChangeEndpoint(t.Context(), endpoint.ID, change); err != nil {
		t.Fatal(err)
	}
	reserve := filepath.Join(disk, "data", "postrider.reserve")
	exists := func() bool {
		_, err := os.Stat(reserve)
		return err == nil
	}
	eventually(t, "the reserve is made", exists)
	var events []postrider.EventID
	for range 20 {
		events = append(events, r.publish(t))
	}
	eventually(t, "all attempts are under way", func() bool { return len(receiver.Requests()) == 20 })

	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(ballast, zeros{}); err == nil {
		t.Fatalf("the disk took %d bytes", n)
	}
	close(answer)
	eventually(t, "all attempts are recorded", func() bool {
		for _, event := range events {
			if !r.delivered(t, event) {
				return false
			}
		}
		return true
	})
	eventually(t, "a publish is refused by its code", func() bool {
		_, err := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
		problem, ok := errors.AsType[*client.Error](err)
		return ok && problem.Status == http.StatusServiceUnavailable && problem.Code == "disk_full" && problem.RetryAfter > 0
	})
	eventually(t, "the reserve is given back, and the ready server says that publishes are refused", func() bool {
		status, text := r.ready(t)
		return status == http.StatusOK && strings.Contains(text, "publishes are refused") && !exists()
	})
	if used := sample(r.metrics(t), "postrider_disk_used_ratio"); used < .95 || used > 1 {
		t.Errorf("disk_used_ratio = %v", used)
	}

	if err := errors.Join(ballast.Close(), os.Remove(ballast.Name())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "publishes are accepted again", func() bool {
		_, err := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
		return err == nil
	})
	eventually(t, "the reserve is made again", exists)
	testkit.Report(t, nil)
}

// TestAReplayStopsWhileTheDiskIsNearlyFull fills the disk to 97 % while a replay runs. Operators
// get a notice, and another one when there is space again.
func TestAReplayStopsWhileTheDiskIsNearlyFull(t *testing.T) {
	t.Parallel()
	if _, outside := testkit.Alone(t); outside {
		return
	}
	testkit.NewInternet(t, testkit.Zone{}, nil, nil)
	disk := mounted(t, "256m")
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := opening(t, filepath.Join(disk, "data"))
	r.opened(t)
	r.subscribe(t, receiver.URL)
	const events = 300
	batch := make([]apitypes.EventCreate, events)
	for i := range batch {
		batch[i] = apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)}
	}
	for from := 0; from < events; from += 100 {
		if _, err := r.api.PublishBatch(t.Context(), batch[from:from+100]); err != nil {
			t.Fatal(err)
		}
	}
	perSecond := 20
	all := apitypes.ReplayCreate{Statuses: []postrider.Status{postrider.Delivered}, PerSecond: &perSecond}
	eventually(t, "all events are delivered", func() bool {
		n, err := r.api.CountReplay(t.Context(), all)
		return err == nil && n.Matches == events
	})
	job, err := r.api.CreateReplay(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	handled := func() int {
		if job, err = r.api.Replay(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		return job.Handled
	}
	eventually(t, "the replay has begun", func() bool { return handled() > 0 })

	ballast := filepath.Join(disk, "ballast")
	space, err := doctor.SpaceOf(disk)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(.97*float64(space.Used+space.Free)) - int64(space.Used)
	if err := os.WriteFile(ballast, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	r.refuses(t)
	last, since := -1, time.Now()
	eventually(t, "the replay stands still for 2 s", func() bool {
		if n := handled(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
	if last == events || job.Status != postrider.ReplayRunning {
		t.Errorf("the replay is %s with %d of %d, want running with a part of them", job.Status, last, events)
	}
	r.notices(t, "disk.full")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	r.notices(t, "disk.recovered")
	eventually(t, "the replay is done", func() bool { return handled() == events && job.Status == postrider.ReplayDone })
	testkit.Report(t, nil)
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
