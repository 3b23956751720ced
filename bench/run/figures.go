package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// figure is one number that a run of a scenario gave.
type figure struct {
	name   string
	format string // of the value, with the unit
	value  float64
}

// goal is a bound for a figure.
type goal struct {
	bound float64
	least bool   // the bound is a minimum; false: a maximum
	or    string // the figure whose goal is an alternative; empty: none
}

func atLeast(bound float64) goal { return goal{bound: bound, least: true} }

func atMost(bound float64) goal { return goal{bound: bound} }

// orElse returns the goal with an alternative: it need not be reached if the goal of the other
// figure is.
func (g goal) orElse(figure string) goal {
	g.or = figure
	return g
}

func (g goal) reached(value float64) bool {
	if g.least {
		return value >= g.bound
	}
	return value <= g.bound
}

// sign returns the relation of the goal.
func (g goal) sign() string {
	if g.least {
		return "≥"
	}
	return "≤"
}

func millis(name string, micros int64) figure {
	return figure{name, "%.1f ms", float64(micros) / 1000}
}

func count(name string, n int64) figure { return figure{name, "%.0f", float64(n)} }

func ratio(name string, a, b float64) figure {
	if b == 0 {
		return figure{name, "%.2f", 0}
	}
	return figure{name, "%.2f", a / b}
}

// good is the class of scenarios with only one class.
const good = "ok"

// rate returns the deliveries per second of the class good in a phase, from the first publish to
// the last arrival.
func (s shown) rate(phase string) float64 {
	r := s.readings[phase]
	took := r.sinks[good].LastAt.Sub(r.loads[good].FirstAt).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(r.sinks[good].Count) / took
}

// throughput returns the figures of scenarios with only the phase "load" and only the class good.
func throughput(s shown) []figure {
	r := s.readings["load"]
	load, sink := r.loads[good], r.sinks[good]
	each := float64(max(1, sink.Count))
	micros := func(cpu time.Duration) float64 { return float64(cpu.Microseconds()) / each }
	figures := []figure{{perSecond, "%.0f", s.rate("load")}}
	if r.phase.loads[0].rate == 0 {
		figures = append(figures, ratio(ofStd, s.rate("load"), s.raw.std.Rate()),
			ratio("deliveries/s ÷ raw (lean)", s.rate("load"), s.raw.lean.Rate()))
	}
	figures = append(figures, []figure{
		{"accepted/s", "%.0f", load.Rate()},
		millis(oldestLeft, sink.Oldest),
		millis(publishP50, load.P50), millis("publish p99", load.P99),
		millis(latencyP50, sink.P50), millis(latencyP95, sink.P95), millis(latencyP99, sink.P99),
		{"CPU/delivery, server", "%.0f µs", micros(r.used.server.CPU)},
		{"CPU/delivery, load", "%.0f µs", micros(r.used.load.CPU)},
		{"CPU/delivery, sink", "%.0f µs", micros(r.used.sink.CPU)},
		{costDisk, "%.0f B", float64(r.disk) / each},
		{costRSS, "%.0f MiB", float64(r.used.server.Peak) / (1 << 20)},
	}...)
	if s.store == postgres {
		figures = append(figures,
			figure{"CPU/delivery, postgres", "%.0f µs", micros(r.used.postgres.CPU)},
			figure{costCPU, "%.0f µs", micros(r.used.server.CPU + r.used.postgres.CPU)},
			figure{costWAL, "%.0f B", float64(r.wal) / each})
	}
	return figures
}

// pair is a phase with trouble and the phase without it.
type pair struct{ without, with string }

// isolation returns figures that show how much the trouble of others slows a class.
func isolation(class string, pairs ...pair) func(shown) []figure {
	return func(s shown) []figure {
		var figures []figure
		done := map[string]bool{}
		for _, p := range pairs {
			without, with := s.readings[p.without].sinks[class], s.readings[p.with].sinks[class]
			if !done[p.without] {
				figures = append(figures, millis(p.without+": p50", without.P50), millis(p.without+": p99", without.P99))
				done[p.without] = true
			}
			figures = append(figures, millis(p.with+": p50", with.P50), millis(p.with+": p99", with.P99),
				ratio(p.with+": p99 ÷ "+p.without, float64(with.P99), float64(without.P99)))
		}
		return figures
	}
}

// slots returns figures of the sampled shares of the slots.
func (s shown) slots(phase string) []figure {
	shares := s.readings[phase].shares
	if len(shares) == 0 {
		return nil
	}
	return []figure{
		{"slots on the dead, median", "%.1f %%", median(shares)},
		{"slots on the dead, greatest", "%.1f %%", slices.Max(shares)},
	}
}

// fannedOut returns figures of one event for many endpoints.
func (s shown) fannedOut(phase, class string) []figure {
	r := s.readings[phase]
	sink := r.sinks[class]
	return []figure{
		millis("publish of the event", r.loads[class].P50),
		count("arrivals of the event", sink.Count),
		{"last arrival after", "%.1f s", float64(sink.Longest) / 1e6},
		{"server RSS, growth", "%.0f MiB", float64(r.grew) / (1 << 20)},
		{costRSS, "%.0f MiB", float64(r.used.server.Peak) / (1 << 20)},
	}
}

func (s shown) drainRate(phase, class string) float64 {
	sink := s.readings[phase].sinks[class]
	if took := sink.LastAt.Sub(sink.FirstAt).Seconds(); took > 0 {
		return float64(sink.Count) / took
	}
	return 0
}

// drained returns how fast a backlog was drained, and how long its claims took.
func (s shown) drained(phase, class string) []figure {
	claims := slices.Sorted(slices.Values(s.readings[phase].claims))
	var p99 time.Duration
	if len(claims) > 0 {
		p99 = claims[(len(claims)-1)*99/100]
	}
	return []figure{
		{phase + ": drained/s", "%.0f", s.drainRate(phase, class)},
		count(phase+": claims", int64(len(claims))),
		millis(phase+": claims p99", p99.Microseconds()),
	}
}

// compared compares two phases at the highest rate.
func (s shown) compared(base, other string) (figures []figure) {
	for _, phase := range []string{base, other} {
		r := s.readings[phase]
		each := float64(max(1, r.sinks[good].Count))
		figures = append(figures,
			figure{phase + ": deliveries/s", "%.0f", s.rate(phase)},
			millis(phase+": publish p50", r.loads[good].P50),
			millis(phase+": created→received p50", r.sinks[good].P50),
			millis(phase+": created→received p99", r.sinks[good].P99),
			figure{phase + ": CPU/delivery, servers", "%.0f µs", float64(r.used.server.CPU.Microseconds()) / each},
			figure{phase + ": CPU/delivery, postgres", "%.0f µs", float64(r.used.postgres.CPU.Microseconds()) / each},
			figure{phase + ": WAL/delivery", "%.0f B", float64(r.wal) / each},
		)
	}
	return append(figures, ratio(other+" ÷ "+base, s.rate(other), s.rate(base)))
}

// afterKill returns the longest times while a node was killed. An event that waited for the dead
// node took longest.
func (s shown) afterKill(phase string) []figure {
	r := s.readings[phase]
	return []figure{
		{phase + ": longest created→received", "%.1f s", float64(r.sinks[good].Longest) / 1e6},
		{phase + ": longest created→received again", "%.1f s", float64(r.sinks[good].Again) / 1e6},
		millis(phase+": created→received p99", r.sinks[good].P99),
		count(phase+": accepted", r.loads[good].Accepted),
	}
}

// flat returns the rates of phases, and the lowest as a share of the highest.
func (s shown) flat(name string, phases []string) []figure {
	var figures []figure
	var rates []float64
	for _, phase := range phases {
		rates = append(rates, s.rate(phase))
		figures = append(figures, figure{phase + ": deliveries/s", "%.0f", rates[len(rates)-1]})
	}
	return append(figures, ratio(name, slices.Min(rates), slices.Max(rates)))
}

// stolen returns which percentage of the machine's time others got, in the phase that lost most.
func (s shown) stolen() (most float64) {
	for _, r := range s.readings {
		most = max(most, r.stolen)
	}
	return most
}

// losses returns the lost and repeated deliveries of all phases.
func (s shown) losses() []figure {
	var refused, missing, surplus int64
	for _, r := range s.readings {
		for _, load := range r.loads {
			refused += load.Refused + load.Broken
		}
		missing += r.missing
		surplus += r.surplus
	}
	return []figure{
		count(notAnswered, refused), count(notArrived, missing), count("arrived again", surplus),
		{"stolen from the machine, at most in a phase", "%.1f %%", s.stolen()},
	}
}

const (
	notAnswered = "publishes not answered 2xx"
	notArrived  = "accepted, not arrived"
)

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// numbered returns a text such as "10,000 endpoints".
func numbered(n int, of string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return fmt.Sprintf("%s %s", digits, of)
}
