package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

// instantly takes every event without storing it.
type instantly struct{}

func (instantly) Publish(_ context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	return make([]postrider.Receipt, len(events)), nil
}

func (instantly) PublishTo(context.Context, postrider.Event, postrider.EndpointID) (postrider.Receipt, error) {
	return postrider.Receipt{}, nil
}

// BenchmarkPublish is the API's own share of a publish of 1 KB: key, body,
// answer, without the commit.
func BenchmarkPublish(b *testing.B) {
	w := newWorld(b)
	w.tenant("acme")
	handler := api.New(api.Deps{Store: w.store, Publisher: instantly{}, Guard: guard{}, Waker: deaf{}, IDs: w.ids}, api.Options{})
	body := `{"account":"acme","type":"order.created","idempotency_key":"order-42","data":{"lines":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"abc","quantity":1},`, 34), ",") + `]}}`
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/webhooks/events", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+w.admin)
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		if rec.Code != http.StatusAccepted {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}
