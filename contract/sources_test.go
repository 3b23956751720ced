package contract_test

import "strings"

// driveSources has events read from the outbox of a producer whose database does not exist. driveRows has
// what a database answers.
func (c *caller) driveSources() {
	c.Helper()
	const body = "postgres://reader@127.0.0.1:9/shop?sslmode=disable"
	c.want(422, "PUT /sources/shop", object{"database_url": body})
	c.want(422, "PUT /sources/shop?check=false", object{"database_url": "mysql://reader@127.0.0.1/shop"})
	full := object{"database_url": body, "password": "secret", "ca": authority(c.T), "keep_hours": 48}
	made := c.want(201, "PUT /sources/shop?check=false", full)
	c.want(200, "PUT /sources/shop?check=false", object{"database_url": body, "password": nil, "ca": nil, "keep_hours": nil})
	c.want(200, "GET /sources/"+made.id("id"), nil)
	c.want(200, "GET /sources", nil)
	table := object{"name": "public.outbox", "id": "id", "fixed_account": "acme", "type": "type", "data": "payload"}
	c.want(200, "PUT /sources/shop?check=false", object{"database_url": body, "table": table})
	c.want(200, "PUT /sources/shop?check=false", object{"database_url": body, "table": object{
		"name": "public.outbox", "id": "id", "order": "created_at", "account": "account", "type": "type", "data": "payload",
		"ordering_key": "aggregateid",
	}})
	c.want(200, "PUT /sources/shop?check=false", object{"database_url": body, "table": nil})
	c.want(200, "POST /sources/shop/pause", nil)
	c.want(200, "POST /sources/shop/resume", nil)
	for _, route := range []string{"GET /sources/shop/state", "GET /sources/shop/rejected?account=acme&code=not_found&limit=1"} {
		c.want(503, route, nil)
	}
	rows := object{"ids": []string{"obx_01h455vb4pex5vsknk084sn02q"}, "account": "acme", "code": "not_found"}
	c.want(503, "POST /sources/shop/rejected/discard", rows)
	rows["new_account"], rows["new_type"] = "acme", "order.created"
	c.want(503, "POST /sources/shop/rejected/retry", rows)
	c.want(404, "GET /events/obx_01h455vb4pex5vsknk084sn02q", nil)
	c.want(404, "GET /search?q=obx_01h455vb4pex5vsknk084sn02q", nil)
	for n := range 99 {
		c.want(201, "PUT /sources/many-"+strings.Repeat("x", n)+"?check=false", object{"database_url": body})
	}
	c.want(409, "PUT /sources/one-more?check=false", object{"database_url": body})
	for n := range 99 {
		c.want(204, "DELETE /sources/many-"+strings.Repeat("x", n), nil)
	}
	c.want(204, "DELETE /sources/shop", nil)
	c.want(404, "GET /sources/shop", nil)
}
