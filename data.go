package postrider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// Base64 is the encoding of data that is neither JSON nor UTF-8, where it must be JSON.
const Base64 = "base64"

// JSONData returns the data as the API and envelopes have it. JSON is unchanged. Other data is a string:
// the text or, if it is not UTF-8, the encoding [Base64] of its bytes. [ParseData] is the inverse.
func (e *Event) JSONData() (data json.RawMessage, encoding string) {
	if e.About.ContentType == "" || e.Data == nil {
		return e.Data, ""
	}
	text := string(e.Data)
	if !utf8.ValidString(text) {
		text, encoding = base64.StdEncoding.EncodeToString(e.Data), Base64
	}
	var quoted bytes.Buffer
	line := json.NewEncoder(&quoted)
	line.SetEscapeHTML(false)
	_ = line.Encode(text) // cannot fail: it is a text
	return bytes.TrimSuffix(quoted.Bytes(), []byte("\n")), encoding
}

// ParseData returns the bytes of data that has the form of the API. The error is an [InvalidError] for
// data or data_encoding.
func ParseData(contentType string, data json.RawMessage, encoding string) ([]byte, error) {
	var text string
	switch {
	case contentType == "" && encoding != "":
		return nil, &InvalidError{Field: "data_encoding", Code: FaultContradictory, Reason: "must be left out without content_type"}
	case contentType == "":
		return data, nil
	case encoding != "" && encoding != Base64:
		return nil, &InvalidError{Field: "data_encoding", Code: FaultNotAChoice, Reason: "must be base64"}
	case json.Unmarshal(data, &text) != nil:
		return nil, &InvalidError{Field: "data", Reason: "must be a string where there is a content_type"}
	case text == "":
		return nil, &InvalidError{Field: "data", Code: FaultRequired, Reason: "must not be empty"}
	case encoding == "":
		return []byte(text), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(decoded) == 0 {
		return nil, &InvalidError{Field: "data", Reason: "must be base64"}
	}
	return decoded, nil
}
