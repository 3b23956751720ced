package browser_test

import (
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"
)

// world is a server with what a platform has after some days: customers whose
// endpoints work, are slow, fail, wait or are gone.
type world struct {
	*server
	receiver *receiver
	mail     *mailbox
	names    map[string]string // what the paths of pages may name, and its id
	visitors [3]*visitor       // by who
}

// retries is a retry policy whose last attempt comes at once, so that failures
// become dead letters.
var retries = object{"delays_ms": []int{0, 0}, "jitter": "none"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{receiver: newReceiver(t), mail: newMailbox(t), names: map[string]string{}}
	w.server = newServer(t, w.mail.settings...)
	w.accounts(t)
	w.endpoints(t)
	w.history(t)
	w.visitors[nobody] = newVisitor(t, w.url)
	w.visitors[operator] = newVisitor(t, w.url)
	w.logIn(t, w.visitors[operator])
	w.enter(t, "globex", customer)
	return w
}

// path returns a path with the ids of what it names in braces.
func (w *world) path(t *testing.T, path string) string {
	t.Helper()
	for name, id := range w.names {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	if strings.ContainsAny(path, "{}") {
		t.Fatalf("%s names what the world does not have", path)
	}
	return path
}

func (w *world) accounts(t *testing.T) {
	t.Helper()
	for uid, name := range map[string]string{
		"acme": "Acme Corporation", "globex": "Globex Logistics GmbH", "initech": "Initech", "umbrella-eu": "Umbrella Europe",
	} {
		w.names[uid] = w.call(t, "POST /accounts", object{"uid": uid, "name": name}).id("id")
	}
	w.names["account"] = w.names["globex"]
	w.names["key"] = w.call(t, "POST /api-keys", object{"name": "Order service", "scopes": []string{"events:write"}}).id("id")
	for name, description := range map[string]string{
		"order.created": "A customer placed an order.", "order.paid": "The payment of an order arrived.",
		"invoice.finalized": "An invoice got its number and will not change.", "shipment.delivered": "A parcel reached its address.",
		"customer.updated": "A customer changed their address or name.",
	} {
		w.call(t, "POST /event-types", object{"name": name, "description": description})
	}
}

// endpoints makes one endpoint of each kind of health.
func (w *world) endpoints(t *testing.T) {
	t.Helper()
	never := object{"preset": "never"}
	make := func(name, account, path string, more object) {
		body := object{"account": account, "url": w.receiver.url + path, "event_types": []string{"*"}, "retry": retries, "circuit": never}
		for option, value := range more {
			body[option] = value
		}
		w.names[name] = w.call(t, "POST /endpoints", body).id("id")
	}
	make("healthy", "acme", "/acme/orders", object{
		"description": "Order service, production", "event_types": []string{"order.*"},
		"headers": []object{{"name": "X-Tenant", "value": "acme"}, {"name": "X-Token", "value": "sesame", "sensitive": true}},
	})
	make("busy", "acme", "/acme/warehouse", object{
		"description": "Warehouse", "event_types": []string{"order.paid", "shipment.*"},
		"rate": object{"attempts": 100, "per_ms": 1000}, "order": "by_key",
	})
	make("failing", "globex", "/globex/hooks", object{"description": "Globex ERP", "event_types": []string{"order.*", "invoice.*"}})
	make("open", "globex", "/globex/legacy", object{
		"uid": "legacy", "circuit": object{"preset": "strict"}, "event_types": []string{"customer.*"},
		"retry": object{"delays_ms": []int{0, 600_000, 3_600_000}, "jitter": "none"},
	})
	make("slow", "initech", "/initech/slow", object{"description": "Answers after a second", "event_types": []string{"order.created"}})
	make("paused", "initech", "/initech/paused", object{"event_types": []string{"invoice.*"}})
	make("gone", "umbrella-eu", "/umbrella/gone", object{"event_types": []string{"order.*"}})
	w.call(t, "POST /endpoints/"+w.names["paused"]+"/pause", object{"reason": "moving to another region"})
	w.receiver.tell("/globex/hooks", saying(500, `{"error": "database is locked", "hint": "<b>see</b> the runbook"}`))
	w.receiver.tell("/globex/legacy", saying(503, "<html><h1>Service Unavailable</h1></html>"))
	w.receiver.tell("/umbrella/gone", saying(410, ""))
	w.receiver.tell("/initech/slow", func(w http.ResponseWriter, request *http.Request) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-request.Context().Done():
		}
		_, _ = w.Write([]byte("thank you"))
	})
}

// history publishes events and waits for what they lead to.
func (w *world) history(t *testing.T) {
	t.Helper()
	types := []string{"order.created", "order.paid", "order.paid", "shipment.delivered", "invoice.finalized", "customer.updated"}
	for _, account := range []string{"acme", "acme", "globex", "initech", "umbrella-eu"} {
		for i, eventType := range types {
			n := strconv.Itoa(i)
			w.publish(t, account, eventType, object{
				"idempotency_key": account + "-" + eventType + "-" + n + "-" + t.Name(),
				"ordering_key":    "customer-" + n, "data": object{
					"id": "ord_" + n, "total": 4200 + i, "currency": "EUR", "paid": i%2 == 0, "note": nil,
					"customer": object{
						"id": "cus_" + n, "name": "Ada Lovelace",
						"address": object{"city": "Zürich", "lines": []string{"Bahnhofstrasse 1", "8001"}},
					},
					"lines": []object{{"sku": "A-1", "quantity": 2, "price": 1900}, {"sku": "B-7", "quantity": 1, "price": 400 + i}},
				},
			})
		}
	}
	w.names["event"], w.names["dead"] = w.publish(t, "globex", "order.paid", object{
		"subject": "order/4200-2026-zurich-warehouse-7-second-floor", "channels": []string{"shop-7", "warehouse"},
		"metadata": object{"region": "north", "trace": "https://shop.example/orders/4200?view=full&lines=all"},
		"internal": object{"risk": "high"}, "previous": object{"id": "ord_4200", "status": "new"},
	})
	_, w.names["delivered"] = w.publish(t, "acme", "order.created", nil)
	_, w.names["waiting"] = w.publish(t, "globex", "customer.updated", nil)
	w.settled(t, w.names["dead"], "dead")
	w.settled(t, w.names["delivered"], "delivered")
	w.inspect(t, "globex", "Hello")
	w.names["replay"] = w.call(t, "POST /replays", object{
		"endpoint": w.names["gone"], "per_second": 1,
		"note": "after the database was mended",
	}).id("id")
}

// rows makes a source whose outbox has rejected rows of each kind, and names it and an account of theirs.
func (w *world) rows(t *testing.T) {
	t.Helper()
	of := newShop(t)
	of.producer(t, "shop_app")
	order := `{"order_id": 42, "total": 4200, "currency": "EUR", "customer": {"name": "Ada Lovelace", "city": "Zürich"}}`
	of.publish(t, fields{"account": "acme", "type": "order.created", "data": order})
	for n := range 3 {
		of.publish(t, fields{"account": "umbrella-uk", "type": "order.paid", "data": order, "ordering_key": "order-" + strconv.Itoa(n)})
	}
	of.publish(t, fields{"account": "globex", "type": "order paid!", "data": order, "metadata": `{"region": "north"}`})
	of.publish(t, fields{
		"account": "globex", "type": "invoice.finalized", "data": `"` + strings.Repeat("long ", 20_000) + `"`,
		"idempotency_key": "invoice-" + strings.Repeat("2026", 60), "changed_paths": []string{"status of the invoice"},
	})
	of.publish(t, fields{"account": strings.Repeat("warehouse", 28), "type": strings.Repeat("very.", 25) + "long", "data": `{}`})
	of.do(t, `select postrider.publish_bytes('umbrella-uk', 'order.exported', 'id,total', 'text/csv')`)
	w.names["source"], w.names["typo"] = w.source(t, of, 7), "umbrella-uk"
}

// inspect names what inspected has made.
func (w *world) inspect(t *testing.T, account, text string) {
	t.Helper()
	w.names["inspector"], w.names["request"] = w.inspected(t, account, text)
}

// inspected makes an inspector endpoint of the account, with a request in it that
// has the text.
func (w *world) inspected(t *testing.T, account, text string) (endpoint, request string) {
	t.Helper()
	endpoint = w.call(t, "POST /endpoints", object{"account": account, "kind": "inspector", "event_types": []string{"inspected"}}).id("id")
	_, delivery := w.publish(t, account, "inspected", object{"data": object{"text": text}})
	w.settled(t, delivery, "delivered")
	return endpoint, w.call(t, "GET /endpoints/"+endpoint+"/requests", nil).items()[0]["id"].(string)
}

// destinations says where the notices of the account are sent, and waits for what becomes of it:
// one address is confirmed and got a test, one waits, and of three webhooks one works, one
// fails and one is gone. It names the address and the links of its emails.
func (w *world) destinations(t *testing.T, account, address string) {
	t.Helper()
	add := func(body object) string {
		return "/notice-destinations/" + w.call(t, "POST /notice-destinations", body).id("id")
	}
	w.receiver.tell("/chat/broken", saying(500, "oh"))
	w.receiver.tell("/chat/gone", saying(410, "removed"))
	route := add(object{
		"account": account, "channel": "email", "address": address,
		"kinds": []string{"endpoint.disabled", "endpoint.disabling"},
	})
	var tested []string
	for _, hook := range []string{"/chat/works", "/chat/broken", "/chat/gone"} {
		tested = append(tested, add(object{"account": account, "channel": "slack", "address": w.receiver.url + hook}))
	}
	add(object{"channel": "email", "address": "on-call@platform.example", "language": "de"})
	confirm := w.mail.arrived(t, address, 1).link(t, "/notices/confirm/")
	press(t, confirm)
	tested = append(tested, route)
	for _, route := range tested {
		w.call(t, "POST "+route+"/test", nil)
	}
	unsubscribe := w.mail.arrived(t, address, 2).link(t, "/notices/unsubscribe/")
	for _, route := range tested {
		eventually(t, func() string {
			if got := w.call(t, "GET "+route, nil); got.body["last_sent_at"] == nil && got.body["last_error"] == nil {
				return "the test message is not settled: " + got.text
			}
			return ""
		})
	}
	w.names["destination"], w.names["confirm"], w.names["unsubscribe"] = path.Base(route), path.Base(confirm), path.Base(unsubscribe)
}
