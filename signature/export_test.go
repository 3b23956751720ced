package signature

import (
	"encoding/base64"
	"strings"
)

// AnySecret takes a text that ParseSecret and TextSecret refuse: some published
// vectors have shorter secrets, or such with spaces.
func AnySecret(text string) Secret {
	key := []byte(text)
	if encoding, ok := strings.CutPrefix(text, symmetricPrefix); ok {
		key, _ = base64.StdEncoding.DecodeString(encoding)
	}
	return hold(material{kind: symmetric, text: text, key: key})
}
