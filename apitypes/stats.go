package apitypes

// Stats has the numbers of a range of time, for each step and in total, and the current numbers.
// They are for all accounts, one account or one endpoint. The range may lack the numbers of about
// the last ten seconds.
type Stats struct {
	From    Time         `json:"from" format:"date-time" doc:"Beginning of the range: of the step that the requested time is in."`
	To      Time         `json:"to" format:"date-time" doc:"End of the range, which is not in it: of the step that the requested time is in."`
	Step    string       `json:"step" enum:"minute,hour,day"`
	TZ      string       `json:"tz" doc:"Time zone of the days."`
	DaysFit bool         `json:"days_fit" doc:"False: the days of this time zone do not begin with a full hour of UTC. Each day then begins with the hour of UTC that its midnight is in, so up to an hour is counted one day late."`
	Total   StatsNumbers `json:"total" doc:"Numbers of the whole range."`
	Points  []StatsPoint `json:"points" nullable:"false" doc:"A point for each step in which something happened, oldest first. A step that is missing has only zeros."`
	Now     StatsNow     `json:"now" doc:"How things stand now, for all event types."`
	LeftOut *LeftOut     `json:"left_out,omitempty" doc:"Events that the filter or changed of the endpoint left out. Left out: left_out was not asked for."`
}

// LeftOut counts the events of an endpoint's types that its filter or changed left out.
type LeftOut struct {
	Count  int64 `json:"count" doc:"Events of its types for which it has no delivery."`
	Events int64 `json:"events" doc:"Events of its types."`
	From   Time  `json:"from" format:"date-time" doc:"Beginning of the time that was counted. It is later than that of the range if there are many: at most 5000 events of the account and 5000 deliveries of the endpoint are read, the newest ones."`
	About  bool  `json:"about" doc:"True: the numbers may be a little off, because the event types, filter or changed of the endpoint were others in a part of the range, because the range has the present hour, or because it was not counted to its beginning."`
}

// StatsPoint has the numbers of one step.
type StatsPoint struct {
	At Time `json:"at" format:"date-time" doc:"Beginning of the step."`
	StatsNumbers
}

// StatsNumbers has the numbers of one step or of the whole range. Each delivery and each attempt is
// counted once, in the step in which it is recorded. The attempts of one delivery may be in several
// steps.
type StatsNumbers struct {
	Deliveries       StatsDeliveries `json:"deliveries" doc:"Deliveries that ended, by their final status."`
	Attempts         StatsAttempts   `json:"attempts" doc:"Attempts, by outcome."`
	AttemptsByNumber []int64         `json:"attempts_by_number" nullable:"false" doc:"Number of first attempts, of second ones (the first retries), and so on. The 16th item counts the 16th attempt and all later ones. Zeros at the end are left out."`
	SuccessRate      *float64        `json:"success_rate" doc:"Share of the deliveries that were delivered, of those that were delivered or died: 0 to 1. Null: there are none."`
	FirstSuccessRate *float64        `json:"first_attempt_success_rate" doc:"Share of the first attempts that were accepted: 0 to 1. Null: there are none."`
	ResponseTime     StatsQuantiles  `json:"response_time" doc:"How long attempts took that got a response, from the DNS lookup to the last byte."`
	DeliveryLatency  StatsQuantiles  `json:"delivery_latency" doc:"Time from the creation of a delivery to the end of the attempt that was accepted, with its retries."`
}

// StatsDeliveries counts deliveries by their final status.
type StatsDeliveries struct {
	Delivered int64 `json:"delivered"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Skipped   int64 `json:"skipped"`
}

// StatsAttempts counts attempts by outcome.
type StatsAttempts struct {
	Total       int64 `json:"total"`
	Accepted    int64 `json:"accepted"`
	Rejected    int64 `json:"rejected"`
	Gone        int64 `json:"gone"`
	Throttled   int64 `json:"throttled"`
	Unreachable int64 `json:"unreachable"`
	TimedOut    int64 `json:"timed_out"`
	Broken      int64 `json:"broken"`
	Blocked     int64 `json:"blocked"`
	Lost        int64 `json:"lost" doc:"Attempts whose server died. An attempt stays counted here if its response is recorded after all."`
}

// StatsQuantiles describes durations. The quantiles are at most 1 % off.
type StatsQuantiles struct {
	Count int64  `json:"count" doc:"Number of durations that the quantiles are of. A server that dies loses the durations of its last ten seconds, and nothing else."`
	P50MS *int64 `json:"p50_ms" doc:"Null: there are none."`
	P95MS *int64 `json:"p95_ms"`
	P99MS *int64 `json:"p99_ms"`
}

// StatsNow has the current numbers.
type StatsNow struct {
	Pending     int    `json:"pending" doc:"Number of pending deliveries. Counting stops at 10000."`
	OldestDueMS *int64 `json:"oldest_due_ms" doc:"How long the oldest due delivery has been due. Null: none is due."`
	DeadLetters int    `json:"dead_letters" doc:"Number of unresolved dead letters. Counting stops at 10000."`
	Partial     bool   `json:"partial" doc:"True: the account has more endpoints, or more endpoints have pending deliveries, than were looked at, which are 1000. Then oldest_due_ms, and the pending of an account, may be greater."`
}
