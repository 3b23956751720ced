package app

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
)

var record = flag.String("record", "", "folder that the series of each fault are recorded to")

// before is how long everything works before the fault.
const before = 30 * time.Minute

// fault is what goes wrong with an installation.
type fault struct {
	name   string // of the file
	title  string
	lasts  time.Duration // 0: until the end
	length time.Duration // from the begin of the fault to the end of the recording; 0: four hours
	sample time.Duration // between two scrapes; 0: a minute

	servers, endpoints int           // 0: 1, 30
	every              time.Duration // between two publishes; 0: 2 s
	policy             func(int, *postrider.Policy)
	flags              []string
	source             bool // a row is added to an outbox every 10 s, too

	// What begins and ends the fault. At the end the receivers are as usual by themselves.
	begin, end func(ctx context.Context, in *installation)
}

// TestRecordFaults records the series of each fault.
func TestRecordFaults(t *testing.T) {
	rules, err := os.ReadFile(ruleFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Concat(faults, sourceFaults) {
		t.Run(f.name, func(t *testing.T) {
			if *record == "" {
				return
			}
			t.Parallel()
			begun := time.Now()
			var outbox *outboxServer
			if f.source {
				outbox = newOutboxServer(t)
			}
			synctest.Test(t, func(t *testing.T) { f.record(t, rules, *record, outbox) })
			t.Logf("recorded in %v", time.Since(begun).Round(time.Millisecond))
		})
	}
}

func (f fault) record(t *testing.T, rules []byte, folder string, outbox *outboxServer) {
	in := newInstallation(t, f)
	ctx, stop := context.WithCancel(t.Context())
	in.running.Go(func() { in.produce(ctx, orElse(f.every, 2*time.Second)) })
	if outbox != nil {
		in.addSource(outbox)
		in.running.Go(func() { in.produceRows(ctx) })
	}
	r := newRecording(rules)
	length, sample := before+orElse(f.length, 4*time.Hour), orElse(f.sample, time.Minute)
	tick := time.NewTicker(sample)
	defer tick.Stop()
	time.Sleep(time.Second / 2) // what happens at a full second is over
	for at := time.Duration(0); at <= length; at += sample {
		r.scrape(in)
		if at == before && f.begin != nil {
			f.begin(ctx, in)
		}
		if f.lasts > 0 && at == before+f.lasts {
			in.set(func() { in.respond = usual })
			if f.end != nil {
				f.end(ctx, in)
			}
		}
		<-tick.C
	}
	stop()
	in.set(func() { in.respond = usual })
	in.close()
	head := fmt.Sprintf("# %s; sample=%s begin=%s", f.title, sample, before)
	if err := r.write(filepath.Join(folder, f.name+".txt"), head); err != nil {
		t.Fatal(err)
	}
}

// TestTheRecordedFaultsHaveTheSeriesOfToday records for three minutes, and looks for the series of
// a committed recording. If a series is no longer served, the faults must be recorded again.
func TestTheRecordedFaultsHaveTheSeriesOfToday(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(ruleFile)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../deploy/faults/outage-30-of-30-500.txt")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		in, r := newInstallation(t, fault{}), newRecording(rules)
		time.Sleep(3 * time.Minute)
		r.scrape(in)
		in.close()
		for line := range strings.Lines(string(committed)) {
			if name, _, found := strings.Cut(line, "} "); found && r.series[name+"}"] == nil {
				t.Errorf("no server serves %s} any more: make faults", name)
			}
		}
	})
}

func orElse[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
}
