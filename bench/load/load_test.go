package main

import (
	"encoding/json"
	"testing"
)

// TestABatchHasTheNextEvents shows that a batch has events of consecutive numbers, for the accounts and of the
// types that take turns.
func TestABatchHasTheNextEvents(t *testing.T) {
	p := publisher{plan: &plan{account: "bench", accounts: 2, prefix: "ok", types: 3, size: 64, batch: 3}}
	var batch struct {
		Events []struct {
			Account string
			Type    string
			Data    struct{ N int }
		}
	}
	if err := json.Unmarshal(p.content(4), &batch); err != nil {
		t.Fatal(err)
	}
	if len(batch.Events) != 3 {
		t.Fatalf("the batch has %d events, want 3", len(batch.Events))
	}
	for i, want := range []struct {
		account, kind string
	}{{"bench0", "ok.t1"}, {"bench1", "ok.t2"}, {"bench0", "ok.t0"}} {
		if got := batch.Events[i]; got.Account != want.account || got.Type != want.kind || got.Data.N != 4+i {
			t.Errorf("event %d of the batch = %+v, want %+v", i, got, want)
		}
	}
	p.plan.batch = 1
	if body := p.content(4); !json.Valid(body) || body[1] != '"' {
		t.Errorf("a single event = %s", body)
	}
}
