package contract_test

// driveNotices lists notices: of an endpoint that responded 410, and of a replay of no
// account in particular.
func (c *caller) driveNotices() {
	c.Helper()
	c.until("the 410 has a notice", "GET /notices?account=acme&kind=endpoint.disabled", func(a answer) bool { return len(a.items()) > 0 })
	everything := c.want(201, "POST /replays", object{"event_types": []string{"nothing.at.all"}}).id("id")
	c.until("its notice says so", "GET /notices?object="+everything, func(a answer) bool { return len(a.items()) > 0 })
	c.paged("GET /notices?limit=1")
}
