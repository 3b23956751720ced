package contract_test

// driveArchive reads an archive that has nothing yet, because no day is old enough.
func (c *caller) driveArchive() {
	c.want(200, "GET /archive/parts?kind=events&from=2026-11-23&to=2026-11-24&limit=2", nil)
	c.want(422, "GET /archive/parts?kind=all", nil)
	c.want(404, "GET /archive/parts/events-2026-11-23-1", nil)
	c.want(200, "GET /archive/records?event=evt_01h455vb4pex5vsknk084sn02q&event_type=order.paid&from=2026-11-23&to=2026-11-24", nil)
	c.want(422, "GET /archive/records?account=nobody", nil)
	c.want(200, "POST /archive/restores", object{"event": "evt_01h455vb4pex5vsknk084sn02q"})
	c.want(422, "POST /archive/restores", object{"from": "yesterday"})
	c.want(200, "GET /archive/restored?limit=2", nil)
	c.want(422, "GET /archive/restored?event=x", nil)
	job := "/endpoints/" + c.endpoint("compared", "/status/200") + "/what-if/archive"
	c.want(404, "GET "+job, nil)
	c.want(404, "DELETE "+job, nil)
	c.want(422, "POST "+job, object{"type": "a.*"})
	c.want(202, "POST "+job, object{"event_types": []string{"a"}, "from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z", "type": "a"})
	c.until("the job has ended", "GET "+job, func(a answer) bool { return a.body["status"] == "done" })
	c.want(204, "DELETE "+job, nil)
}
