package signature

import (
	"encoding/base64"
	"strings"
)

// AnySecret accepts a text that ParseSecret and TextSecret refuse, because some published test
// vectors have shorter secrets or secrets with spaces.
func AnySecret(text string) Secret {
	key := []byte(text)
	if encoding, ok := strings.CutPrefix(text, symmetricPrefix); ok {
		key, _ = base64.StdEncoding.DecodeString(encoding)
	}
	return hold(material{kind: symmetric, text: text, key: key})
}
