package web

// tailRoutes lists the page of the live tail. Its rows come from the stream of live.go,
// with the filters of the page's URL.
func tailRoutes() []route {
	return []route{{"GET /tail", everyone, showTail}}
}

// tailPage is the data of the page of the live tail.
type tailPage struct {
	Filters filters
	Faults  map[string]string
	Off     bool // this server has no streams
}

// showTail shows attempts while they are made. Without scripts the page links to the
// list of deliveries.
func showTail(v *visit) error {
	endpoint, _, err := v.endpointFilter()
	p := tailPage{Off: v.h.Live == nil, Filters: filters{
		v.choice("status", "delivery.status", "pending", "delivered", "dead"),
		v.choice("outcome", "outcome", "accepted", "rejected", "gone", "throttled", "unreachable", "timed_out", "broken", "blocked", "lost"),
		v.textFilter("event_type"), endpoint,
	}}
	if v.who == operators {
		p.Filters = append(p.Filters, v.accountFilter())
	}
	status := 0
	if faults, refused := v.faulty(err); refused {
		p.Faults, status = faults, 422
	}
	return v.show(page{Name: "live", Data: p, Status: status, Commands: []string{"deliveries list"}})
}
