package contract_test

// driveComparisons compares events with what an endpoint subscribes to.
func (c *caller) driveComparisons(id string) {
	c.Helper()
	event := c.want(202, "POST /events", object{"account": "acme", "type": "options", "data": 1})
	explain := "GET /events/" + event.id("id") + "/explain?endpoint="
	c.want(200, explain+id, nil)
	c.want(200, "PATCH /endpoints/"+id, object{"filter": object{"data": []any{2, object{"exists": false}}, "subject": []any{"x"}}})
	c.want(200, "PATCH /endpoints/"+id, object{
		"changed": []string{"$.a"}, "channels": []string{"a"}, "payload": "envelope", "include_previous": true,
	})
	c.want(200, explain+id, nil)
	for _, condition := range []string{`type == "a"`, `data.b == 1`, `size(internal) == 0`} {
		c.want(200, "PATCH /endpoints/"+id, object{"condition": condition})
		asked := c.want(202, "POST /events", object{"account": "acme", "type": "options", "data": 1}).id("id")
		c.want(200, "GET /events/"+asked+"/explain?endpoint="+id, nil)
	}
	all := object{"filter": nil, "channels": nil, "condition": nil, "changed": []string{"$.a"}, "last": 5}
	c.want(200, "POST /endpoints/"+id+"/what-if", all)
	all["channels"] = []string{"none"}
	c.want(200, "POST /endpoints/"+id+"/what-if", all)
	c.want(200, "POST /endpoints/"+id+"/what-if", object{"filter": nil, "channels": nil, "condition": "type == 'none'", "changed": nil})
	c.want(202, "POST /events", object{"account": "acme", "type": "options", "data": object{"a": []object{{"b": 1}, {"c": 1}}}})
	apart := object{"a": object{"b": []int{1}}, "$or": []object{{"a": object{"c": []int{1}}}, {"d": []int{1}}}}
	c.want(200, "POST /endpoints/"+id+"/what-if", object{"filter": object{"data": apart}, "from": "2020-01-01T00:00:00Z"})
	c.want(200, "POST /endpoints/"+id+"/what-if", object{"to": "2020-01-01T00:00:00Z"})
	c.want(200, "POST /events/dry-run", object{"filter": object{"data": []any{1}}, "event": object{"type": "a", "data": 1}})
	later := c.want(202, "POST /events", object{"account": "acme", "type": "options", "data": 1})
	c.want(200, "GET /events/"+later.id("id")+"/explain?endpoint="+id, nil)
	c.want(200, "GET /endpoints/"+id+"/stats?left_out=true", nil)
	named := c.want(202, "POST /events", object{"account": "acme", "type": "published", "data": 1, "endpoints": []string{id}}).id("id")
	c.want(200, "GET /events/"+named, nil)
	c.want(200, "GET /events/"+named+"/explain?endpoint="+id, nil)
	other := c.endpoint("other-options", "/status/200")
	c.want(200, explain+other, nil)
	c.want(204, "DELETE /endpoints/"+other, nil)
}
