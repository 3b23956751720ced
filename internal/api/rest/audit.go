package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// This file writes and lists the audit log.
//
// A request to a route that changes something has an audit entry in three cases: the request
// succeeded, it was refused with 403, or it failed with a 5xx. After a 5xx the change may have been
// made. All other refusals changed nothing and have no entry. Routes that publish have no entries
// either: the event itself is the record. A request that reads has an entry if it searches the data of
// events, because such a search tells about data like a read.
//
// The server writes the entry after the change and before the response. If the write fails, the
// response is a 503, which promises nothing, and the server's log gets the entry. So the audit log
// has every change that a response confirms, and every secret that a response shows.

const (
	// OutcomeOK is the outcome of an action that succeeded.
	OutcomeOK = "ok"
	// auditTime is the time limit for the write of an entry. The write continues after its request
	// has ended, because a change must be recorded even if the client is gone.
	auditTime = 2 * time.Second
)

// audited reports whether the requests of the route have audit entries.
func (r Route) audited() bool {
	return r.Reveals || !strings.HasPrefix(r.Path, http.MethodGet) && !r.Reads
}

// objectKinds maps a path parameter to the kind of its object. For a path without a parameter, the
// key is the first segment of the path.
var objectKinds = map[string]string{
	"name": "event_type", "accounts": "account", "api-keys": "key", "endpoints": "endpoint", "event-types": "event_type",
	"events": "event", "hold": "store", "notice-destinations": "notice_destination", "destination": "notice_destination", "portal": "portal",
	"portal-sessions": "session", "replays": "replay", "search": "event",
}

// object returns the kind of the object that the route is about, and the path parameter that names
// the object. If the parameter is empty, the response has the id.
func (r Route) object() (kind, parameter string) {
	_, path, _ := strings.Cut(r.Path, " ")
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for _, segment := range slices.Backward(segments) {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parameter = strings.TrimSuffix(name, "}")
			return cmp.Or(objectKinds[parameter], parameter), parameter
		}
	}
	return objectKinds[segments[0]], ""
}

// audit writes the audit entry of a request, if its route has audit entries. out is the response;
// nil: the request has none. audit returns the error that the request ends with: the error of the
// write if the write failed, otherwise err.
func (s *server) audit(ctx context.Context, r Route, out any, err error) error {
	c := InfoOf(ctx)
	if !r.audited() && !c.searchesData {
		return err
	}
	k := classOf(err)
	if err != nil && k.status < 500 && k.status != http.StatusForbidden {
		return err
	}
	entry := postrider.AuditEntry{
		Action: r.Name, Outcome: OutcomeOK, Key: c.Caller.Key, Session: c.Caller.Session, Name: c.Caller.Name,
		Account: cmp.Or(c.Account, c.Caller.Account), Request: c.id, Details: maps.Clone(c.details),
	}
	if err != nil {
		entry.Outcome = k.code
	}
	var parameter string
	entry.Object, parameter = r.object()
	entry.ObjectID = c.path(parameter)
	switch { // a path may name these by uid
	case entry.Object == "endpoint" && !c.endpoint.IsZero():
		entry.ObjectID = c.endpoint.String()
	case entry.Object == "account" && !c.Account.IsZero():
		entry.ObjectID = c.Account.String()
	}
	entry.ObjectID = cmp.Or(c.object, entry.ObjectID)
	about := describeReply(out)
	if c.created { // the path names an object that did not exist
		entry.ObjectID = about.id
	}
	entry.ObjectID, entry.Account = cmp.Or(entry.ObjectID, about.id), cmp.Or(entry.Account, about.account)
	if fields := fieldsOf(c.body); fields != "" {
		if entry.Details == nil {
			entry.Details = map[string]string{}
		}
		entry.Details["fields"] = fields
	}
	return cmp.Or(s.auditLog.Record(ctx, entry), err)
}

// AuditStore is the part of the store that has the audit log.
type AuditStore interface {
	// AppendAudit is the method of store.Audit.
	AppendAudit(ctx context.Context, e postrider.AuditEntry) error
}

// Audit writes the audit log.
type Audit struct {
	Store AuditStore
	IDs   *store.IDs
	Log   *slog.Logger // receives the entries that could not be stored
}

// Record writes an entry of the audit log. The error matches errUnaudited.
func (s *Audit) Record(ctx context.Context, e postrider.AuditEntry) error {
	e.ID = store.NewID[postrider.AuditID](s.IDs)
	e.Request = cmp.Or(e.Request, InfoOf(ctx).id)
	within, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), auditTime, ErrStoreTimeout)
	defer cancel()
	err := s.Store.AppendAudit(within, e)
	if err == nil {
		return nil
	}
	s.Log.ErrorContext(ctx, "audit entry was not stored", "action", e.Action, "outcome", e.Outcome, "key", e.Key.String(),
		"session", e.Session.String(), "account", e.Account.String(), "object", e.ObjectID, "request", e.Request, "error", err)
	return fmt.Errorf("%w: %w", errUnaudited, err)
}

// ClientOf returns the details of an audit entry with the address of a client.
func ClientOf(from netip.Addr) map[string]string { return map[string]string{"client": from.String()} }

// path returns the first MaxName bytes of a path parameter of the request, without a cut-off
// character at the end. If the path has control characters, which cannot be stored, it returns "".
func (c *Info) path(parameter string) string {
	if c.request == nil || parameter == "" || !postrider.IsText(c.request.URL.Path) {
		return ""
	}
	value := c.request.PathValue(parameter)
	return strings.ToValidUTF8(value[:min(len(value), MaxName)], "")
}

// Object sets the id of the object in the audit entry of a request whose path names it by a name.
func (c *Info) Object(id string) { c.object = id }

// SearchesData says that the request searches the data of events for the values at the paths. It gets an
// audit entry with the paths, and without the value.
func (c *Info) SearchesData(paths string) {
	c.searchesData = true
	c.Note("where", paths)
}

// Note adds a detail to the audit entry of the request. The detail must not be a secret.
func (c *Info) Note(name, detail string) {
	if c.details == nil {
		c.details = map[string]string{}
	}
	c.details[name] = detail
}

const (
	// maxChange is the largest size of an old or a new value in an audit entry, in bytes, unless the
	// field is one of wholeFields.
	maxChange = 100
	// hiddenChange replaces the values of fields that may have secrets.
	hiddenChange = "changed"
)

// hiddenFields are the fields whose values never appear in an audit entry, because people put
// credentials into headers and into the query of URLs.
var hiddenFields = []string{"url", "headers", "auth", "tls"}

// wholeFields say which events an endpoint gets. An audit entry has all of their old and new text, so
// that a person can tell which events a creation or a change left out. The limits of these fields bound an entry:
// the largest is that of a filter, 16 KiB.
var wholeFields = []string{"event_types", "filter", "channels", "changed", "condition"}

// Changed notes each field that a request changed, with its old and its new value, such as 10000 →
// 20000 for timeout_ms. The arguments are the object before and after, as responses show it. A
// handler that tries a change again calls Changed again, which replaces the earlier notes.
func (c *Info) Changed(was, is any) {
	before, after := fieldValues(was), fieldValues(is)
	for field, value := range after {
		switch {
		// The server sets these fields, not the request.
		case field == "updated_at", field == "revision", field == "status_since", field == "backlog_full_since", field == "warnings":
		case bytes.Equal(before[field], value):
			delete(c.details, field)
		case slices.Contains(hiddenFields, field):
			c.Note(field, hiddenChange)
		case slices.Contains(wholeFields, field):
			c.Note(field, shorten(before[field], math.MaxInt)+" → "+shorten(value, math.MaxInt))
		default:
			c.Note(field, shorten(before[field], maxChange)+" → "+shorten(value, maxChange))
		}
	}
}

// Selects notes the fields that say which events a new endpoint gets, as a change from null. The argument
// is the endpoint as responses show it.
func (c *Info) Selects(is any) {
	for field, value := range fieldValues(is) {
		if slices.Contains(wholeFields, field) && string(value) != "null" {
			c.Note(field, "null → "+string(value))
		}
	}
}

// fieldValues returns the fields of an object as JSON. Objects of apitypes can always be encoded.
func fieldValues(object any) (fields map[string]json.RawMessage) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // people read the values, and filters have < and >
	if e.Encode(object) != nil || json.Unmarshal(text.Bytes(), &fields) != nil {
		return nil
	}
	return fields
}

// shorten returns at most the first bytes of a value. For a missing field it returns null.
func shorten(value json.RawMessage, most int) string {
	switch {
	case len(value) == 0:
		return "null"
	case len(value) > most:
		return strings.ToValidUTF8(string(value[:most]), "") + "…"
	}
	return string(value)
}

// described has the parts of an audit entry that come from the response.
type described struct {
	id      string
	account postrider.AccountID
}

// describeReply returns the id and the account of the object in a response. The types of all
// objects have a field ID and, if the objects belong to an account, a field Account.
func describeReply(out any) (d described) {
	value := reflect.ValueOf(out)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return d
	}
	body := value.Elem().FieldByName("Body")
	if body.Kind() != reflect.Struct {
		return d
	}
	if id := body.FieldByName("ID"); id.IsValid() {
		d.id = fmt.Sprint(id.Interface())
	} else if t, ok := reflect.TypeAssert[apitypes.EventType](body); ok { // its name is its id
		d.id = t.Name
	}
	if account := body.FieldByName("Account"); account.IsValid() {
		switch a := account.Interface().(type) {
		case postrider.AccountID:
			d.account = a
		case *postrider.AccountID:
			if a != nil {
				d.account = *a
			}
		}
	}
	return d
}

// fieldsOf returns the names of the fields of a body. It omits the values, because they may be
// secrets.
func fieldsOf(body []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}
