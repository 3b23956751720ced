package storetest

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var texts = []verb{{"Texts", []sentence{
	{"a text is what it is, never a statement or a pattern", textsAreTexts},
	{"what is asked for is that text, and no other", textsAreAskedFor},
}}}

// evil are texts that have a meaning in SQL. A database must store them as plain texts.
var evil = []string{
	`'; drop table queue; --`, `x' or '1'='1`, `"; delete from events; --`, `%`, `_`, `*`, `\`, `\'; select 1 --`,
	`$1`, `@id`, `:id`, `?`, `$$; drop table queue; $$`, `{1,2}`, `null`, `/*`, "\t\n",
}

func textsAreTexts(w *world) {
	for _, text := range evil {
		a := w.newAccount(text)
		a.Name = text
		w.putAccount(&a)
		w.same("the account", w.accounts(store.AccountQuery{ID: a.ID}), []postrider.Account{a})

		k := w.newKey()
		k.Name = text
		w.ok(w.PutKey(w.Context(), k))
		if got := w.key(k.ID).Name; got != text {
			w.Errorf("a key's name is %q, want %q", got, text)
		}

		session := w.newSession()
		session.Name, session.Subject, session.Locale, session.Options = text, text, text, []string{text}
		w.ok(w.PutSession(w.Context(), session))
		w.same("the session", w.session(session.ID), session)

		entry := w.newEntry()
		entry.Name, entry.Action, entry.Outcome, entry.Object, entry.ObjectID, entry.Request = text, text, text, text, text, text
		entry.Details = map[string]string{text: text}
		w.ok(w.AppendAudit(w.Context(), entry))
		w.same("the audit entry", w.entries(store.AuditQuery{Action: text, ObjectID: text}), []postrider.AuditEntry{entry})

		notice := w.newNotice()
		notice.Kind, notice.Object, notice.Occurrence, notice.Details = postrider.NoticeKind(text), text, text, map[string]string{text: text}
		w.told(notice)
		w.same("the notice", w.notices(store.NoticeQuery{Kind: notice.Kind, Object: text}), []postrider.Notice{notice})

		w.eventType(text, text)
		types, err := w.EventTypes(w.Context(), store.EventTypeQuery{Name: text})
		w.ok(err)
		if len(types.Items) != 1 || types.Items[0].Name != text || types.Items[0].Description != text {
			w.Errorf("the event types are %+v, want %q", types.Items, text)
		}

		draft := w.draft(a.ID)
		draft.UID, draft.URL, draft.Description, draft.StatusReason = text, "https://acme.example/"+text, text, text
		draft.EventTypes = []postrider.Pattern{postrider.Pattern(text)}
		e := w.put(draft)
		w.same("the endpoint", w.found(e.ID), e)

		event := w.orderedEvent(e, text, postrider.PauseOnDead)
		event.Event.IdempotencyKey, event.Event.Data, event.Event.Type = text, []byte(text), text
		event.Event.APIVersion = text
		w.publish(store.Batch{event})
		got := w.stored(event.Event.ID)
		if got.Type != text || string(got.Data) != text || got.OrderingKey != text || got.APIVersion != text {
			w.Errorf("the event is %+v, want %q in it", got, text)
		}
		letter := dead(w.claimExactly(e, event.Deliveries[0].ID)[0])
		letter.Attempt.Error, letter.Transition.Reason = text, text
		w.settle(letter)
		resolved, err := w.Discard(w.Context(), store.Discard{Delivery: event.Deliveries[0].ID, By: text, Note: text})
		w.ok(err)
		if resolved.ResolvedBy != text || resolved.Note != text || resolved.Reason != text {
			w.Errorf("the dead letter is %+v, want %q in it", resolved, text)
		}
	}
}

func textsAreAskedFor(w *world) {
	other := w.newAccount("other")
	w.putAccount(&other)
	plain := w.draft(other.ID)
	plain.UID, plain.EventTypes = "other", []postrider.Pattern{"other"}
	e := w.put(plain)
	w.eventType("other", "")
	w.publish(store.Batch{w.keyed(e, "other", "1")})
	for _, text := range evil {
		w.same("the accounts", w.accounts(store.AccountQuery{UID: text}), []postrider.Account{})
		page, err := w.Endpoints(w.Context(), store.EndpointQuery{Account: other.ID, UID: text})
		w.ok(err)
		types, err := w.EventTypes(w.Context(), store.EventTypeQuery{Name: text})
		w.ok(err)
		if len(page.Items)+len(types.Items) > 0 {
			w.Errorf("%q finds %d endpoints and %d event types, want none", text, len(page.Items), len(types.Items))
		}
		w.refuses(w.DeleteEventType(w.Context(), text), postrider.ErrNotFound)

		mine := w.keyed(e, text, "1")
		first := w.publish(store.Batch{mine})
		again := w.publish(store.Batch{w.keyed(e, text, "1")})
		if id := again[0].Events[0].ID; id != first[0].Events[0].ID || id != mine.Event.ID {
			w.Errorf("the idempotency key %q means %s, want %s", text, id, mine.Event.ID)
		}
	}
	w.ok(w.DeleteEventType(w.Context(), "other")) // succeeds, because the type still exists
}
