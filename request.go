package postrider

import (
	"strings"
	"unicode/utf8"
)

// Masked stands for a value that is not shown: a credential, or a signature in a recorded request.
const Masked = "***"

// Request is the HTTP request of an attempt, in the form that people see. The sender makes it. For
// an attempt it shows a request to the endpoint as the endpoint is now. For an inspector endpoint
// it shows the request that a receiver would have got.
type Request struct {
	Method string
	URL    string // without its query, which may be a credential; "?..." stands for the query
	Header []HeaderField
	Body   []byte // the signed body, before compression; nil: the data was deleted
	Signed []SignedContent
}

// HeaderField is one field of a header. [Masked] replaces a value that must not be shown.
type HeaderField struct {
	Name, Value string
}

// SignedContent says what a scheme signs in a request: the Prefix, followed by the body.
type SignedContent struct {
	Scheme Scheme
	Header string // name of the header that carries the signature
	Prefix string // empty: only the body is signed
}

// maxCurlBody is the greatest length, in bytes, of a body that a curl command contains. For a
// longer body the command names a file.
const maxCurlBody = 16 << 10

// Curl returns a curl command for a POSIX shell that makes the request. Placeholders such as
// <Webhook-Signature> stand for masked values. @body.json stands for a body that is long, deleted
// or not text. The command leaves out the fields that curl adds itself.
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
