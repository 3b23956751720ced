package postrider_test

import (
	"math"
	"testing"

	"github.com/postrider/postrider"
)

// The expected ratios are those of WebAIM's contrast checker.
func TestContrast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want float64
	}{
		{"#000000", "#ffffff", 21},
		{"#ffffff", "#ffffff", 1},
		{"#767676", "#ffffff", 4.54},
		{"#ffffff", "#ff0000", 4},
		{"#0000ff", "#000000", 2.44},
	} {
		a, aOK := postrider.ParseColour(tt.a)
		b, bOK := postrider.ParseColour(tt.b)
		if got := a.Contrast(b); !aOK || !bOK || math.Abs(got-tt.want) > 0.005 {
			t.Errorf("the contrast of %s and %s = %.3f, want %.2f", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestTextsThatAreNoColours(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "#", "#fff", "ffffff", "#ggffff", "#1234567", "#-12345", "#12 456", "red"} {
		if c, ok := postrider.ParseColour(text); ok {
			t.Errorf("%q is the colour %v", text, c)
		}
	}
}
