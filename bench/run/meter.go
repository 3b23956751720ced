package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
)

// meter is what the parts had used at a moment.
type meter struct {
	used     usages
	machine  lab.Machine
	resident int64 // present memory of the largest server, in bytes
	disk     int64
	wal      int64
	log      int64 // length of PostgreSQL's log, in bytes
}

func (w *environment) meter(ctx context.Context) (m meter, err error) {
	for _, node := range slices.Concat(w.nodes, w.gone) {
		used, err := node.Process().Usage()
		if err != nil {
			return m, err
		}
		m.used.server.CPU += used.CPU
		m.used.server.Peak = max(m.used.server.Peak, used.Peak)
	}
	for _, node := range w.nodes {
		resident, err := node.Process().ResetPeak()
		if err != nil {
			return m, err
		}
		m.resident = max(m.resident, resident)
	}
	var errs [7]error
	m.used.sink, errs[0] = w.sink.Usage()
	m.used.postgres, errs[1] = w.lab.PostgresUsage()
	m.disk, errs[2] = w.lab.StoreBytes(w.nodes[0])
	m.wal, errs[3] = w.lab.WALBytes(ctx)
	if w.logged {
		m.log, errs[4] = w.lab.LogLength()
	}
	m.machine, errs[5] = lab.MachineTime()
	if w.producer != nil {
		m.used.producer, errs[6] = w.producer.Usage()
	}
	return m, errors.Join(errs[:]...)
}

// note records what was used between two moments.
func (r *reading) note(before, after meter) {
	r.used.server.CPU = after.used.server.CPU - before.used.server.CPU
	r.used.server.Peak = after.used.server.Peak
	r.used.postgres.CPU = after.used.postgres.CPU - before.used.postgres.CPU
	r.used.producer.CPU = after.used.producer.CPU - before.used.producer.CPU
	r.used.sink.CPU = after.used.sink.CPU - before.used.sink.CPU
	r.grew = after.used.server.Peak - before.resident
	r.disk, r.wal = after.disk-before.disk, after.wal-before.wal
	r.stolen = 100 * float64(after.machine.Stolen-before.machine.Stolen) / float64(max(1, after.machine.All-before.machine.All))
}

// raws are the rates of this machine without a server between load and sink.
type raws struct{ lean, std lab.LoadStats }

func measureRaw(ctx context.Context, l *lab.Lab) (r raws, err error) {
	sink, err := l.StartSink(ctx, false)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, sink.Kill()) }()
	plan := lab.Load{
		Targets: []string{sink.Address()}, Raw: "/raw", Prefix: "raw", Connections: 64, Duration: 3 * time.Second, Size: dataSize,
	}
	if r.lean, err = l.RunLoad(ctx, plan); err != nil {
		return r, err
	}
	plan.Std = true
	r.std, err = l.RunLoad(ctx, plan)
	return r, err
}
