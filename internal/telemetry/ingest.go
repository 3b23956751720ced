package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// ingest has the metrics of the API and of publishing.
type ingest struct {
	events, duplicates, bytes prometheus.Counter
	refused                   *prometheus.CounterVec
	taken, returned           prometheus.Counter             // deliveries that other nodes handed to this one
	commits                   map[string]prometheus.Observer // by result
	size                      prometheus.Histogram
	created                   prometheus.Counter
	readsRefused              prometheus.Counter
	responses                 map[string]prometheus.Observer // by class of the status
}

func newIngest(f factory) ingest {
	commits := f.histograms("commit_seconds", "Time of a commit of new events or deliveries.", callBuckets, "result")
	responses := f.histograms("api_response_seconds", "Time from a request of the API to its response.", callBuckets, "status")
	handed := f.counters("deliveries_handed_total", "Deliveries that other servers stored for this one.", "result")
	return ingest{
		events:     f.counter("events_accepted_total", "Events that were stored."),
		duplicates: f.counter("events_duplicate_total", "Events that repeated an accepted idempotency key."),
		bytes:      f.counter("event_bytes_total", "Data of accepted publishes."),
		refused:    f.counters("publishes_refused_total", "Publishes that were not accepted.", "reason"),
		taken:      handed.WithLabelValues(resultOK),
		returned:   handed.WithLabelValues(resultRefused),
		commits:    children([]string{resultOK, resultError}, commits.WithLabelValues),
		size:       f.histogram("commit_events", "Events of a commit.", eventBuckets),
		created:    f.counter("deliveries_created_total", "Deliveries that publishes made."),
		readsRefused: f.counter("reads_refused_total",
			"Reads of the API and pages that were refused because too many of their account were under way."),
		responses: children([]string{"2xx", "3xx", "4xx", "5xx"}, responses.WithLabelValues),
	}
}

func (i *ingest) accepted(a observe.Accepted) {
	i.events.Add(float64(a.Events - a.Duplicates))
	i.duplicates.Add(float64(a.Duplicates))
	i.bytes.Add(float64(a.Bytes))
}

func (i *ingest) handed(h observe.Handed) {
	i.taken.Add(float64(h.Deliveries - h.Refused))
	i.returned.Add(float64(h.Refused))
}

// committed counts a commit, and the deliveries that the commit recorded as skipped. It also counts
// the skipped deliveries of duplicates, although they were not stored. They are few.
func (m *Metrics) committed(c observe.Committed) {
	if c.Err != nil {
		m.ingest.commits[resultError].Observe(c.Took.Seconds())
		return
	}
	m.ingest.commits[resultOK].Observe(c.Took.Seconds())
	if c.Events > 0 { // 0: a chunk of a fan-out
		m.ingest.size.Observe(float64(c.Events))
	}
	m.ingest.created.Add(float64(c.Deliveries))
	m.deliveries.skip(postrider.ReasonEndpointDisabled, c.Skipped.Disabled)
	m.deliveries.skip(postrider.ReasonEndpointDeleted, c.Skipped.Deleted)
	m.deliveries.skip(postrider.ReasonBacklogFull, c.Skipped.Full)
}

// responded counts a response of the API. It also counts a refused publish by the code of its
// problem, whatever part of the server refused it.
func (i *ingest) responded(r observe.Responded) {
	if o, ok := i.responses[class(r.Status)]; ok {
		o.Observe(r.Took.Seconds())
	}
	if r.Problem != "" && (strings.HasSuffix(r.Route, "/events") || strings.HasSuffix(r.Route, "/events/batch")) &&
		strings.HasPrefix(r.Route, "POST ") {
		i.refused.WithLabelValues(r.Problem).Inc()
	}
}

// class returns the class of an HTTP status, such as "2xx"; empty if the status is below 200 or
// above 599.
func class(status int) string {
	if status < 200 || status > 599 {
		return ""
	}
	return [...]string{"2xx", "3xx", "4xx", "5xx"}[status/100-2]
}
