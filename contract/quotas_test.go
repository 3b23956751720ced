package contract_test

// driveQuotas uses up each limit of an account.
func (c *caller) driveQuotas() {
	c.Helper()
	c.want(201, "POST /accounts", object{"uid": "narrow"})
	c.want(200, "GET /accounts/narrow/quotas", nil)
	c.want(200, "PATCH /accounts/narrow/quotas", object{"endpoints": 1, "events_per_second": 1, "burst": nil, "backlog": 0})
	c.endpoint("narrow", "/status/200", object{"account": "narrow"})
	c.want(409, "PUT /endpoints/narrow:more", object{"url": c.receiver.url, "event_types": []string{"x"}})
	c.want(409, "POST /endpoints", object{"account": "narrow", "url": c.receiver.url, "event_types": []string{"x"}})
	event := object{"account": "narrow", "type": "narrow", "data": 1}
	batch := object{"events": []object{event, event}}
	for c.send(request{route: "POST /events", body: event}).status != 429 { // the server knows the limit within a second
	}
	c.want(429, "POST /events/batch", batch)
	c.want(200, "PATCH /accounts/narrow/quotas", object{"events_per_second": nil, "bytes_per_day": 1})
	for c.send(request{route: "POST /events", body: event}).id("code") != "byte_quota_used" {
	}
	c.want(429, "POST /events/batch", batch)
	c.want(200, "GET /accounts/narrow/quotas", nil)
	c.driveBacklog()
}

// driveBacklog fills an endpoint, so that its next event is skipped.
func (c *caller) driveBacklog() {
	c.Helper()
	full := object{"account": "full"}
	c.want(201, "POST /accounts", object{"uid": "full"})
	c.want(200, "PATCH /accounts/full/quotas", object{"backlog": 1})
	id := c.endpoint("fills", "/status/200", full)
	c.want(200, "POST /endpoints/"+id+"/pause", nil)
	c.publish("fills", full)
	c.until("the endpoint is full", "GET /endpoints/"+id, func(a answer) bool { return a.body["backlog_full_since"] != nil })
	_, skipped := c.publish("fills", full)
	c.settled(skipped, "skipped")
	c.want(200, "POST /replays/dry-run", object{"account": "full", "statuses": []string{"skipped"}, "reason": "backlog_full"})
	c.want(202, "POST /deliveries/"+skipped+"/replay", nil)
	c.want(204, "DELETE /endpoints/"+id, nil)
}
