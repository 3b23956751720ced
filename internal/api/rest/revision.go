package rest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
)

// This file has what a PUT and a PATCH share: revisions and conditions. An object with a field Revision
// in its response also has an ETag with this number. A request with If-Match changes the object only
// while it has the ETag.

// ifMatch returns the header for the document of an operation that heeds it.
func ifMatch() *huma.Param {
	return &huma.Param{
		Name: "If-Match", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The ETag that the object must have, or *: it must exist. Otherwise nothing is changed, and the response is a 412.",
	}
}

// errPrecondition is the error of a request whose If-Match does not hold.
var errPrecondition = errors.New("the object has another revision")

// IfMatch returns a 412 unless the If-Match of the request holds for an object with the revision; 0: it
// does not exist. A request without the header has no condition.
func IfMatch(ctx context.Context, revision int64) error {
	values := InfoOf(ctx).Header.Values("If-Match")
	if len(values) == 0 {
		return nil
	}
	for wanted := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if wanted = strings.TrimSpace(wanted); revision > 0 && (wanted == "*" || wanted == tag(revision)) {
			return nil
		}
	}
	return errPrecondition
}

// tag returns the ETag of a revision.
func tag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }

// revisionOf returns the field Revision in the body of a response; invalid: there is none.
func revisionOf(reply reflect.Value) reflect.Value {
	body := reply.FieldByName("Body")
	if body.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return body.FieldByName("Revision")
}

// changeTries is how often a change is tried while others change the object.
const changeTries = 3

// RetryConflicts calls a change until it does not end with a conflict, three times at most. The change
// must read the object anew each time.
func RetryConflicts[O any](change func() (*Reply[O], error)) (reply *Reply[O], err error) {
	for range changeTries {
		if reply, err = change(); !errors.Is(err, postrider.ErrConflict) {
			break
		}
	}
	return reply, err
}

// Created makes the response a 201.
func (c *Info) Created() { c.created = true }

// describeTag adds the header ETag to the document of an operation.
func describeTag(op huma.Operation) {
	for _, status := range []string{"200", "201", "202"} {
		if success := op.Responses[status]; success != nil {
			success.Headers = maps.Clone(success.Headers)
			if success.Headers == nil {
				success.Headers = map[string]*huma.Param{}
			}
			success.Headers["ETag"] = &huma.Param{
				Description: "The revision of the object, in quotes.", Schema: &huma.Schema{Type: huma.TypeString}, Example: `"7"`,
			}
		}
	}
}

// describeCreated adds the 201 to the document of an operation. It has the same body as the 200.
func describeCreated(op huma.Operation) {
	op.Responses["201"] = &huma.Response{Description: "Created", Content: op.Responses["200"].Content}
}

// noteRevision adds the ETag to a response, and returns its status.
func (a *responseWriter) noteRevision(status int) int {
	if status/100 != 2 {
		return status
	}
	if a.info.tag != "" {
		a.Header().Set("ETag", a.info.tag)
	}
	if a.info.created {
		return http.StatusCreated
	}
	return status
}
