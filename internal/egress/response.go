package egress

import (
	"bytes"
	"strings"
)

// Response is the response to a request. Its header lies in the memory of the
// [Exchange]: read it before the Exchange is used again.
type Response struct {
	Status int
	Body   []byte // the first 16 KiB of the body; less if the connection or the context ended early

	header []byte // status line and fields, up to the empty line
}

// Field returns the value of the first header field with that name, which must be ASCII; "" if
// there is none. It also returns "" for a value that is folded over several lines, since readers
// disagree on such values.
func (r *Response) Field(name string) string {
	_, fields, _ := bytes.Cut(r.header, []byte("\n"))
	for len(fields) > 0 {
		var line []byte
		line, fields, _ = bytes.Cut(fields, []byte("\n"))
		found, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !equalFold(found, name) {
			continue
		}
		if len(fields) > 0 && isSpace(fields[0]) {
			return ""
		}
		return strings.Trim(string(bytes.TrimSuffix(value, []byte("\r"))), " \t")
	}
	return ""
}
