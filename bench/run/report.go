package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

const tableHead = "| scenario | store | accepted/s | deliveries/s | publish p50 | p99 | created→received p50 | p95 | p99 | " +
	"CPU µs/delivery: server | postgres | load | sink | bytes/delivery | server RSS | refused | missing | surplus |\n" +
	"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

// row is the scenario's row of the table.
func (m measurement) row() string {
	deliveries := max(1, m.sink.Count)
	surplus := max(0, m.sink.Count-m.load.Accepted*m.scenario.matches())
	cells := []string{
		m.scenario.name, m.store,
		fmt.Sprintf("%.0f", m.load.Rate()),
		fmt.Sprintf("%.0f", float64(m.sink.Count)/m.sink.LastAt.Sub(m.load.FirstAt).Seconds()),
		millis(m.load.P50), millis(m.load.P99),
		millis(m.sink.P50), millis(m.sink.P95), millis(m.sink.P99),
		perDelivery(m.used.server.CPU, deliveries), perDelivery(m.used.postgres.CPU, deliveries),
		perDelivery(m.used.load.CPU, deliveries), perDelivery(m.used.sink.CPU, deliveries),
		fmt.Sprint(m.bytes / deliveries),
		fmt.Sprintf("%d MiB", m.used.server.Peak>>20),
		fmt.Sprint(m.load.Refused + m.load.Broken), fmt.Sprint(m.missing), fmt.Sprint(surplus),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func millis(micros int64) string { return fmt.Sprintf("%.1f ms", float64(micros)/1000) }

func perDelivery(cpu time.Duration, deliveries int64) string {
	return fmt.Sprint(cpu.Microseconds() / deliveries)
}

// machine says what the numbers were measured on.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = strings.Trim(line, "\t :")
		}
	}
	return fmt.Sprintf("%s, %d cores (%s), %s, %s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), model,
		runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
}
