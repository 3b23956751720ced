package apitypes

// QuotaLimits are limits of one account.
type QuotaLimits struct {
	EventsPerSecond *int64 `json:"events_per_second" doc:"Events that it may publish in a second, on average."`
	Burst           *int64 `json:"burst" doc:"Events that it may publish at once."`
	BytesPerDay     *int64 `json:"bytes_per_day" doc:"Bytes of data that the events of a day may have. The day is UTC's."`
	Endpoints       *int64 `json:"endpoints" doc:"Endpoints that it may have."`
	Backlog         *int64 `json:"backlog" doc:"Deliveries that may wait for one of its endpoints. When as many wait, new events are skipped for the endpoint, with the reason backlog_full."`
}

// QuotasUpdate is a change of the limits of one account.
type QuotasUpdate struct {
	EventsPerSecond Optional[int64] `json:"events_per_second,omitzero" doc:"Events that it may publish in a second, on average, 1 to 1000000; 0: no limit. Null: the default of the server."`
	Burst           Optional[int64] `json:"burst,omitzero" doc:"Events that it may publish at once, 1 to 10000000. 0 or null: events_per_second of the account, else the default of the server."`
	BytesPerDay     Optional[int64] `json:"bytes_per_day,omitzero" doc:"Bytes of data that the events of a day may have, at most 2^50; 0: no limit. Null: the default of the server."`
	Endpoints       Optional[int64] `json:"endpoints,omitzero" doc:"Endpoints that it may have, 1 to 1000000; 0: no limit. Null: the default of the server."`
	Backlog         Optional[int64] `json:"backlog,omitzero" doc:"Deliveries that may wait for one of its endpoints, 1 to 1000000; 0: no limit. Null: the default of the server."`
}

// AccountQuotas has the limits of one account, and how much of them it has used.
type AccountQuotas struct {
	Limits QuotaLimits `json:"limits" doc:"What holds. Null: no limit."`
	Own    QuotaLimits `json:"own" doc:"What was set for the account. Null: the default of the server; 0: no limit."`
	Used   QuotaUse    `json:"used"`
}

// QuotaUse is how much of its limits an account has used.
type QuotaUse struct {
	EventsNow  *int64 `json:"events_now" doc:"Events that it may publish at once now, as its servers last reported; 0: it has to wait. Null: no limit."`
	BytesToday *int64 `json:"bytes_today" doc:"Bytes of data of today's events, as its servers last reported: within 30 s and half a percent of the limit for each server. Null: no limit."`
	DayEndsAt  Time   `json:"day_ends_at" format:"date-time" doc:"When bytes_today begins anew."`
	Endpoints  int64  `json:"endpoints"`
}

// QuotaProblem says which limit refused a request.
type QuotaProblem struct {
	Name   string `json:"name" enum:"events_per_second,bytes_per_day,endpoints"`
	Limit  int64  `json:"limit"`
	EndsAt *Time  `json:"ends_at" format:"date-time" doc:"When the same request may succeed. Null: after the account uses less, or has a higher limit."`
}
