package web

import "github.com/postrider/postrider/internal/web/live"

// OnMissingText sets what is called for a key that a catalogue does not have.
func OnMissingText(h *Handler, missing func(key string)) {
	for _, c := range h.Texts.Catalogues {
		c.Missing = missing
	}
}

// Watch sets what hands out the attempts.
func (h *Handler) Watch(from live.Attempts) { h.live.From = from }

// Catalogues returns the keys of each language.
func (h *Handler) Catalogues() map[string][]string {
	keys := map[string][]string{}
	for language, c := range h.Texts.Catalogues {
		for key := range c.Under("") {
			keys[language] = append(keys[language], key)
		}
	}
	return keys
}
