package web

// OnMissingText sets what is called for a key that a catalogue does not have.
func OnMissingText(h *Handler, missing func(key string)) {
	for _, c := range h.texts.catalogues {
		c.missing = missing
	}
}

// Patterns lists the routes of all pages.
func (h *Handler) Patterns() []string { return h.patterns }

// Catalogues returns the keys of each language.
func (h *Handler) Catalogues() map[string][]string {
	keys := map[string][]string{}
	for language, c := range h.texts.catalogues {
		for key := range c.texts {
			keys[language] = append(keys[language], key)
		}
	}
	return keys
}

// OptionNames lists the options of the form of an endpoint.
func OptionNames() (names []string) {
	for _, group := range optionGroups {
		for _, o := range group.options {
			names = append(names, o.name)
		}
	}
	return names
}
