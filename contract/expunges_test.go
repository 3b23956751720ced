package contract_test

import "time"

// driveExpunges removes an event and an account, and asks for what cannot be removed.
func (c *caller) driveExpunges() {
	c.want(201, "POST /accounts", object{"uid": "leaving", "name": "Leaving Ltd."})
	event := c.want(202, "POST /events", object{"account": "leaving", "type": "gone", "data": 1}).id("id")
	c.want(422, "POST /expunges", object{})
	c.want(422, "POST /expunges", object{"event": "evt_01h455vb4pex5vsknk084sn02q"})
	c.want(202, "POST /expunges", object{"event": event})
	endpoint := c.endpoint("left", "/status/200", object{"account": "leaving"})
	c.want(202, "POST /expunges", object{"endpoint": endpoint})
	removal := c.want(202, "POST /expunges", object{"account": "leaving"}).id("id")
	c.want(200, "GET /expunges?limit=2", nil)
	c.want(200, "GET /expunges/"+removal, nil)
	c.want(404, "GET /expunges/xpg_01h455vb4pex5vsknk084sn02q", nil)
	resume := func() int { return c.send(request{route: "POST /hold/resume"}).status }
	for until := time.Now().Add(patience); resume() != 409; { // the server may have removed everything before the question
		if time.Now().After(until) {
			c.Fatal("no resume found an expunge unfinished")
		}
		another := c.want(202, "POST /events", object{"account": "acme", "type": "gone", "data": 1}).id("id")
		c.want(202, "POST /expunges", object{"event": another})
	}
	for resume() == 409 { // until all have removed everything
	}
}
