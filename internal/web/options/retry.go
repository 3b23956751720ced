package options

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/text"
)

// This file shows and reads the retry schedule of an endpoint: a preset, a list of delays,
// or the numbers of growing delays.

// showRetry returns the preset, or the delays of a list, or the numbers of a formula.
func showRetry(e apitypes.Endpoint) []string {
	r := e.Retry.Value()
	switch {
	case r.Preset != "":
		return []string{r.Preset, "", "", "", "", "", ""}
	case r.DelaysMS != nil:
		texts := make([]string, 0, len(r.DelaysMS))
		for _, ms := range r.DelaysMS {
			texts = append(texts, text.DurationText(ms))
		}
		return []string{ownChoice, strings.Join(texts, ", "), "", "", "", "", string(r.Jitter)}
	}
	return []string{
		formulaChoice, "", text.DurationText(r.BaseMS), strconv.FormatFloat(r.Factor, 'f', -1, 64), text.DurationText(r.CapMS),
		strconv.Itoa(r.MaxAttempts), string(r.Jitter),
	}
}

// setRetry sends only the inputs of the chosen form.
func setRetry(u *apitypes.EndpointUpdate, to []string) (err error) {
	u.Retry = apitypes.Of(apitypes.Retry{Preset: unreadable}) // until it is read
	r := apitypes.Retry{Jitter: postrider.Jitter(to[6])}
	switch to[0] {
	case ownChoice:
		r.DelaysMS, err = parseDelays(to[1])
	case formulaChoice:
		err = parseFormula(&r, to)
	default:
		r = apitypes.Retry{Preset: to[0]}
	}
	if err == nil {
		u.Retry = apitypes.NullUnless(to[0] != "", r)
	}
	return err
}

// parseDelays reads a list of lengths of time, separated by commas or lines; if there are none,
// by spaces. The error names the entry that cannot be read.
func parseDelays(typed string) (delays []int64, err error) {
	entries := strings.FieldsFunc(typed, func(r rune) bool { return strings.ContainsRune(",;\n", r) })
	if len(entries) == 1 {
		entries = strings.Fields(typed)
	}
	for i, entry := range entries {
		d, err := text.ParseDuration(strings.TrimSpace(entry))
		if err != nil {
			return nil, &unreadError{errNoDelay, "delays_ms", []any{"at", i + 1, "entry", clip(strings.TrimSpace(entry), 40)}}
		}
		delays = append(delays, d.Milliseconds())
	}
	if len(delays) == 0 {
		return nil, &unreadError{error: errNoRetry, part: "delays_ms"}
	}
	return delays, nil
}

// clip returns at most the first n characters of a text.
func clip(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return text
}

// parseFormula reads the numbers of growing delays. The API refuses numbers that are left empty.
func parseFormula(r *apitypes.Retry, to []string) (err error) {
	for _, length := range []struct {
		part, text string
		into       *int64
	}{{"base_ms", to[2], &r.BaseMS}, {"cap_ms", to[4], &r.CapMS}} {
		d, err := text.ParseDuration(length.text)
		if err != nil && length.text != "" {
			return &unreadError{error: err, part: length.part}
		}
		*length.into = d.Milliseconds()
	}
	if r.Factor, err = strconv.ParseFloat(strings.Replace(to[3], ",", ".", 1), 64); err != nil && to[3] != "" {
		return &unreadError{error: errNoDecimal, part: "factor"}
	}
	if r.MaxAttempts, err = strconv.Atoi(to[5]); err != nil && to[5] != "" {
		return &unreadError{error: errNoNumber, part: "max_attempts"}
	}
	return nil
}
