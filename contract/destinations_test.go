package contract_test

import "strconv"

// driveDestinations says where notices are sent. The mail server of the server does not
// exist, so emails fail.
func (c *caller) driveDestinations() {
	c.Helper()
	hook := func(name string) object {
		return object{"account": "acme", "channel": "slack", "address": c.receiver.url + "/status/200?for=" + name}
	}
	made := c.want(201, "POST /notice-destinations", hook("first")).id("id")
	c.want(201, "POST /notice-destinations", object{
		"channel": "slack", "address": "https://hooks.example/1", "language": "de",
		"kinds": []string{"endpoint.disabled"},
	})
	c.want(409, "POST /notice-destinations", hook("first"))
	c.want(422, "POST /notice-destinations", object{"account": "acme", "channel": "fax", "address": "1"})
	route := "/notice-destinations/" + made
	c.want(200, "GET "+route, nil)
	c.want(200, "PATCH "+route, object{"language": "de", "kinds": []string{}})
	c.want(200, "PATCH "+route, object{"kinds": nil})
	c.want(409, "POST "+route+"/confirmation", nil)
	for range 3 {
		c.want(200, "POST "+route+"/test", nil)
	}
	c.want(429, "POST "+route+"/test", nil)
	c.until("the test is sent", "GET "+route, func(a answer) bool { return a.body["last_sent_at"] != nil })

	email := object{"account": "acme", "channel": "email", "address": "ann@acme.example"}
	address := "/notice-destinations/" + c.want(201, "POST /notice-destinations", email).id("id")
	c.want(409, "POST "+address+"/test", nil)
	c.until("the email fails", "GET "+address, func(a answer) bool { return a.body["last_error"] != nil })
	for range 2 {
		c.want(200, "POST "+address+"/confirmation", nil)
	}
	c.want(429, "POST "+address+"/confirmation", nil)
	c.want(204, "DELETE "+address, nil)
	c.want(429, "POST /notice-destinations", email)

	c.want(200, "GET /notice-destinations?account=acme", nil)
	c.want(200, "GET /notice-destinations?operator=true", nil)
	c.paged("GET /notice-destinations?limit=1")
	for n := range 19 {
		c.want(201, "POST /notice-destinations", hook(strconv.Itoa(n)))
	}
	c.want(409, "POST /notice-destinations", hook("last"))
	c.want(204, "DELETE "+route, nil)
	c.want(404, "GET "+route, nil)

	bound := c.want(201, "POST /api-keys", object{"name": "bound", "account": "acme", "scopes": []string{"webhooks:read"}}).id("key")
	for _, route := range []string{"GET /notice-destinations", "GET /hold"} { // which keep something from callers of one account
		c.send(request{route: route, key: bound})
	}
}
