package browser_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/cdproto/page"
)

// screenshots is where docs has the picture of each page.
const screenshots = "../docs/screenshots"

// colours is how many a picture in docs has at most. Pages have few, and many
// shades of them at the edges of letters.
const colours = 40

// picture returns what the page looks like in a window that is as high as the
// page, at most limit.
func (tb *tab) picture(width, limit int64) image.Image {
	tb.Helper()
	tb.resize(width, min(limit, eval[int64](tb, "document.documentElement.scrollHeight")))
	shot := call(tb, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		tb.Fatalf("read the screenshot: %v", err)
	}
	return picture
}

// keep checks that a picture shows something and that docs has one of its name.
// With -update it becomes the one in docs.
func (tb *tab) keep(name string, picture image.Image) {
	tb.Helper()
	reduced := reduce(picture)
	if background := commonest(reduced); len(reduced.Palette) < 8 || background > 0.995 {
		tb.Errorf("%s is blank: %d colours, %.1f %% of one", name, len(reduced.Palette), 100*background)
	}
	path := filepath.Join(screenshots, name+".png")
	if !update {
		if _, err := os.Stat(path); err != nil {
			tb.Errorf("%v: make screenshots takes it", err)
		}
		return
	}
	var file bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&file, reduced); err != nil {
		tb.Errorf("encode %s: %v", name, err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		tb.Errorf("write %s: %v", name, err)
	}
}

// reduce returns the picture in its commonest colours. The others become the
// nearest of these.
func reduce(picture image.Image) *image.Paletted {
	bounds := picture.Bounds()
	count := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	for _, c := range all {
		if len(palette) < colours && (len(palette) == 0 || distance(c, palette[palette.Index(c)].(color.RGBA)) > 8) {
			palette = append(palette, c)
		}
	}
	nearest := make(map[color.RGBA]uint8, len(all))
	for _, c := range all {
		nearest[c] = uint8(palette.Index(c)) //nolint:gosec // fewer than 256 colours
	}
	reduced := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			reduced.SetColorIndex(x, y, nearest[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)])
		}
	}
	return reduced
}

// distance is how far two colours are apart, summed over red, green and blue.
func distance(a, b color.RGBA) int {
	apart := func(x, y uint8) int { return max(int(x), int(y)) - min(int(x), int(y)) }
	return apart(a.R, b.R) + apart(a.G, b.G) + apart(a.B, b.B)
}

// commonest returns the part of the picture that its commonest colour covers.
func commonest(picture *image.Paletted) float64 {
	count := make([]int, 256)
	for _, index := range picture.Pix {
		count[index]++
	}
	return float64(slices.Max(count)) / float64(len(picture.Pix))
}
