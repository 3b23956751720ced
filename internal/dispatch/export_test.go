package dispatch

import "github.com/postrider/postrider/internal/schedule"

// Saturate tells the loop that the processors are saturated, until the measured load changes.
func (d *Dispatcher) Saturate() { d.post(schedule.Load{Saturated: true}) }
