package receiver_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/postrider/postrider/receiver"
	"github.com/postrider/postrider/signature"
)

// deliver sends a signed request, as a sender does, and returns the status of the response.
func deliver(h http.Handler, key signature.Key, id, body string) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
	m := signature.Message{ID: id, Timestamp: time.Now(), Body: []byte(body)}
	if err := signature.Sign(r.Header, m, []signature.Key{key}, signature.Format{}); err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func exampleKey() signature.Key {
	secret, err := signature.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") // from the configuration
	if err != nil {
		panic(err)
	}
	return signature.Key{Secret: secret}
}

// This receiver of Standard Webhooks forgets processed events when its process ends.
func Example() {
	key := exampleKey()
	handle := func(_ context.Context, e receiver.Event) error {
		fmt.Println("processed", e.ID, e.Type)
		return nil
	}
	verifiers := []signature.Verifier{{Keys: []signature.Key{key}}}
	hooks, err := receiver.New(verifiers, receiver.NewMemory(receiver.MemoryOptions{}), handle, receiver.Options{})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", hooks)

	fmt.Println(deliver(mux, key, "evt_1", `{"type":"order.created"}`))
	fmt.Println(deliver(mux, key, "evt_1", `{"type":"order.created"}`)) // the sender did not get the first response
	// Output:
	// processed evt_1 order.created
	// 204
	// 204
}

// A repetition can succeed after some errors; Permanent marks the others.
func ExamplePermanent() {
	key := exampleKey()
	handle := func(_ context.Context, e receiver.Event) error {
		var order struct{ Number int }
		if err := json.Unmarshal(e.Body, &order); err != nil {
			return receiver.Permanent(err)
		}
		return errors.New("the warehouse does not answer")
	}
	verifiers := []signature.Verifier{{Keys: []signature.Key{key}}}
	hooks, err := receiver.New(verifiers, receiver.NewMemory(receiver.MemoryOptions{}), handle, receiver.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(deliver(hooks, key, "evt_1", `{"number":42}`))
	fmt.Println(deliver(hooks, key, "evt_2", `{"number":"forty-two"}`))
	// Output:
	// 500
	// 422
}

// A queue in the receiver's database: one transaction stores the event in the queue and records it,
// so the event is queued once. The sender gets its response at once. Workers process the queue
// later.
func ExampleSQL_RecordTx() {
	key := exampleKey()
	db, err := sql.Open("sqlite", "file:queue?mode=memory&cache=shared")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have its own database in memory
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, "create table jobs (id integer primary key, body blob)"); err != nil {
		panic(err)
	}
	store, err := receiver.NewSQL(db, receiver.SQLite, receiver.SQLOptions{})
	if err != nil {
		panic(err)
	}
	if err := store.Migrate(ctx); err != nil {
		panic(err)
	}
	enqueue := func(ctx context.Context, e receiver.Event) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := store.RecordTx(ctx, tx, e); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "insert into jobs (body) values (?)", e.Body); err != nil {
			return err
		}
		return tx.Commit()
	}
	hooks, err := receiver.New([]signature.Verifier{{Keys: []signature.Key{key}}}, store, enqueue, receiver.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(deliver(hooks, key, "evt_1", `{}`))
	fmt.Println(deliver(hooks, key, "evt_1", `{}`))
	var jobs int
	if err := db.QueryRowContext(ctx, "select count(*) from jobs").Scan(&jobs); err != nil {
		panic(err)
	}
	fmt.Println("queued:", jobs)
	// Output:
	// 204
	// 204
	// queued: 1
}
