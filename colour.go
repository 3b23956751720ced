package postrider

import (
	"math"
	"strconv"
	"strings"
)

// Colour is a colour in sRGB: red, green and blue, each from 0 to 1.
type Colour [3]float64

// ParseColour reads a colour of the form #rrggbb. It returns false if the text has another form.
func ParseColour(text string) (Colour, bool) {
	digits, ok := strings.CutPrefix(text, "#")
	n, err := strconv.ParseUint(digits, 16, 32)
	if !ok || err != nil || len(digits) != 6 {
		return Colour{}, false
	}
	return Colour{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255}, true
}

// Contrast returns the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).
func (c Colour) Contrast(other Colour) float64 {
	a, b := c.luminance(), other.luminance()
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// luminance returns the relative luminance, from 0 to 1 (WCAG 2.2).
func (c Colour) luminance() float64 {
	linear := func(x float64) float64 {
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}
