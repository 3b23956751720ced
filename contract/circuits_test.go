package contract_test

// driveCircuits brings circuits into every status, for every reason.
func (c *caller) driveCircuits() {
	c.Helper()
	opened := func(id, reason string) {
		c.until("the circuit is open", "GET /endpoints/"+id+"/circuit", func(a answer) bool { return a.body["reason"] == reason })
	}
	soon := object{"retry": object{"delays_ms": []int{0, 1000, 1000, 1000, 1000, 1000, 1000}, "jitter": "none"}}
	row := c.endpoint("in.a.row", "/status/500", soon, object{"circuit": object{"failures": 1, "cooldown_ms": 3000}})
	ratio := c.endpoint("too.many", "/status/500", soon, object{"circuit": object{"percent": 1, "attempts": 10}})
	c.publish("in.a.row")
	opened(row, "failures_in_row")
	for range 10 {
		c.publish("too.many")
	}
	opened(row, "probe_failed")
	opened(ratio, "failure_ratio")

	manual := c.endpoint("by.hand", "/wait", later, object{"timeout_ms": 30000})
	c.want(200, "GET /endpoints/"+manual+"/circuit", nil)
	c.want(200, "POST /endpoints/"+manual+"/circuit", object{"status": "open"})
	opened(manual, "manual")
	_, behind := c.publish("by.hand")
	c.until("it waits for a probe", "GET /deliveries/"+behind, func(a answer) bool {
		explanation, _ := a.body["explanation"].(object)
		return explanation["next"] == "probe"
	})
	c.want(200, "POST /endpoints/"+manual+"/circuit", object{"status": "half_open"})
	half := func(a answer) bool { return a.id("status") == "half_open" }
	c.until("the circuit is half open", "GET /endpoints/"+manual+"/circuit", half)
	c.want(200, "GET /endpoints?circuit=half_open", nil)
	c.want(200, "POST /endpoints/"+manual+"/circuit", object{"status": "half_open"})
	c.want(200, "POST /endpoints/"+manual+"/circuit", object{"status": "closed"})
}

// drivePace brings endpoints into every state in which they get less than their limit.
func (c *caller) drivePace() {
	c.Helper()
	held := func(account, path, reason string, options ...object) {
		id := c.endpoint(account, path, options...)
		c.publish(account)
		c.publish(account)
		c.until("it is held back by "+reason, "GET /endpoints/"+id+"/circuit", func(a answer) bool {
			pace, _ := a.body["pace"].(object)
			return pace["reason"] == reason
		})
	}
	held("throttling", "/status/503", "window", later)
	held("asking", "/status/429", "retry_after", later)
	held("silent", "/cut", "no_response", later)
	held("slow.rate", "/status/200", "rate", object{"rate": object{"attempts": 1, "per_ms": 3600000}})
	_, due := c.publish("slow.rate")
	c.until("another one waits beside it", "GET /deliveries/"+due, func(a answer) bool {
		explanation, _ := a.body["explanation"].(object)
		return explanation["others"] != nil
	})
	c.refused("delivery_not_waiting", "{delivery}", due)
}
