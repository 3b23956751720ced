package postrider

import (
	"strings"
	"unicode/utf8"
)

// Masked stands for a value that is not shown: a credential, or a signature in a
// request that is recorded.
const Masked = "***"

// Request is the HTTP request of an attempt as people see it. The sender makes it:
// of an attempt for the endpoint as it is now, and of an inspector endpoint as its
// receiver would have got it.
type Request struct {
	Method string
	URL    string // without its query, which may be a credential: "?..." stands for it
	Header []HeaderField
	Body   []byte // as it is signed, before compression; nil: its bytes are deleted
	Signed []SignedContent
}

// HeaderField is one field of a header. A value that must not be shown is [Masked].
type HeaderField struct {
	Name, Value string
}

// SignedContent says what a scheme signs of a request: the Prefix, followed by the body.
type SignedContent struct {
	Scheme Scheme
	Header string // name of the field that carries the signature
	Prefix string // empty: only the body is signed
}

// maxCurlBody is the length, in bytes, up to which a curl command contains the body. A
// longer body is read from a file.
const maxCurlBody = 16 << 10

// Curl returns a curl command for a POSIX shell that makes the request. Placeholders
// such as <Webhook-Signature> stand for masked values, and @body.json for a body that
// is long, deleted or no text. It leaves out the fields that curl writes by itself.
func (r Request) Curl() string {
	var b strings.Builder
	url, _, hasQuery := strings.Cut(r.URL, "?")
	if hasQuery {
		url += "?<query>"
	}
	b.WriteString("curl -X " + r.Method + " " + quoted(url))
	for _, f := range r.Header {
		switch strings.ToLower(f.Name) {
		case "host", "content-length", "content-encoding":
			continue
		}
		value := f.Value
		if value == Masked {
			value = "<" + f.Name + ">"
		}
		b.WriteString(" \\\n  -H " + quoted(f.Name+": "+value))
	}
	body := string(r.Body)
	if r.Body == nil || len(body) > maxCurlBody || !utf8.ValidString(body) || strings.HasPrefix(body, "@") || strings.Contains(body, "\x00") {
		return b.String() + " \\\n  --data-binary @body.json"
	}
	return b.String() + " \\\n  --data-binary " + quoted(body)
}

// quoted returns the text as one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
