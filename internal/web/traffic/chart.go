package traffic

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// chart is a drawing of numbers over time, for the partial "chart". Its coordinates are
// in a box of chartWidth by chartHeight, which the browser scales. It has a title and a
// description for screen readers, and a table of all its numbers.
type chart struct {
	ID, Title, Desc string
	Series          []series
	YTicks, XTicks  []tick
	Rows            []chartRow
	Columns         []column // that lead to the deliveries of their time; none: there are too many
	Box             box
	Empty           string // what is said if there is nothing to draw; empty: the usual sentence
}

// box is the place of the drawing: the plot, and the space for the labels around it.
type box struct{ Width, Height, Left, Top, Right, Bottom int }

// Right returns the right end of the plot.
func (c chart) Right() int { return c.Box.Width - c.Box.Right }

// LabelX returns the right end of the labels of the vertical axis.
func (c chart) LabelX() int { return c.Box.Left - 6 }

// LabelY returns the base line of the labels of the horizontal axis.
func (c chart) LabelY() int { return c.Box.Height - 6 }

// series is one row of numbers in a chart.
type series struct {
	Name  string
	Class string // series-0 to series-5 chooses the colour
	Dash  string // dash-1 or dash-2: told apart without colour; empty: a solid line
	Line  string // path of the line; empty: bars
	Area  string // path of the area below it; empty: none
	Bars  []bar
}

// bar is one bar of a stack.
type bar struct {
	X, Y, Width, Height string
	Title               string
}

// column is the area of one time in a chart, from top to bottom. Its title has the numbers of
// this time, and its link leads to the deliveries that were created then.
type column struct{ Title, Link string }

// tick is a labelled line of an axis.
type tick struct {
	At    string
	Label string
}

// chartRow is a row of the table of a chart.
type chartRow struct {
	Label  string
	Link   string // to the deliveries that were created then
	Values []string
}

// plot says what a chart shows. Points that are NaN have no number.
type plot struct {
	id, title, desc string
	at              []time.Time // in the zone in which they are shown
	step            time.Duration
	names           []string
	classes         []string
	values          [][]float64 // by series, then by time
	show            func(float64) string
	link            func(time.Time) string // to the deliveries of a step
	bars            bool                   // stacked bars; else lines
	area            bool                   // fill below the first line
}

// standardBox is the place of the charts of a page.
var standardBox = box{Width: 440, Height: 170, Left: 46, Top: 8, Right: 6, Bottom: 22}

// draw returns the chart of the plot.
func (p plot) draw() chart {
	c := chart{ID: p.id, Title: p.title, Desc: p.desc, Box: standardBox}
	top, ticks := scale(p.largest())
	y := func(value float64) float64 {
		return float64(c.Box.Height-c.Box.Bottom) - value/top*float64(c.Box.Height-c.Box.Top-c.Box.Bottom)
	}
	width := float64(c.Box.Width-c.Box.Left-c.Box.Right) / float64(max(1, len(p.at)))
	x := func(i int) float64 { return float64(c.Box.Left) + width*float64(i) }
	for _, value := range ticks {
		c.YTicks = append(c.YTicks, tick{fixed(y(value)), p.show(value)})
	}
	for _, i := range spread(len(p.at), 5) {
		c.XTicks = append(c.XTicks, tick{fixed(x(i) + width/2), axisTime(p.at[i], p.step)})
	}
	base := make([]float64, len(p.at)) // of the stack so far
	for n, values := range p.values {
		s := series{Name: p.names[n], Class: p.classes[n]}
		if p.bars {
			for i, value := range values {
				if value <= 0 {
					continue
				}
				from, to := y(base[i]), y(base[i]+value)
				base[i] += value
				s.Bars = append(s.Bars, bar{
					fixed(x(i) + width*0.1), fixed(to), fixed(width * 0.8), fixed(from - to),
					fmt.Sprintf("%s, %s: %s", rowTime(p.at[i], p.step), p.names[n], p.show(value)),
				})
			}
		} else {
			if n > 0 {
				s.Dash = "dash-" + strconv.Itoa(min(n, 2))
			}
			s.Line = linePath(values, func(i int) float64 { return x(i) + width/2 }, y)
			if p.area && n == 0 {
				s.Area = below(values, func(i int) float64 { return x(i) + width/2 }, y)
			}
		}
		c.Series = append(c.Series, s)
	}
	c.Rows, c.Columns = p.rows(), p.columns()
	return c
}

// maxColumns is the largest number of columns in a chart. More columns would be too narrow to
// point at, and would make the page large.
const maxColumns = 60

// columns returns the columns of a plot, one for each step.
func (p plot) columns() []column {
	if len(p.at) > maxColumns {
		return nil
	}
	columns := make([]column, 0, len(p.at))
	for i, at := range p.at {
		texts := []string{rowTime(at, p.step)}
		for n, values := range p.values {
			if !math.IsNaN(values[i]) {
				texts = append(texts, p.names[n]+": "+p.show(values[i]))
			}
		}
		columns = append(columns, column{strings.Join(texts, ", "), p.link(at)})
	}
	return columns
}

// largest returns the largest number of the chart; of stacked bars, the largest sum.
func (p plot) largest() float64 {
	largest := 0.0
	for i := range p.at {
		sum := 0.0
		for _, values := range p.values {
			switch {
			case math.IsNaN(values[i]):
			case p.bars:
				sum += values[i]
			default:
				sum = max(sum, values[i])
			}
		}
		largest = max(largest, sum)
	}
	return largest
}

// rows returns the table of a plot, without the times at which nothing happened.
func (p plot) rows() []chartRow {
	var rows []chartRow
	for i, at := range p.at {
		row, some := chartRow{Label: rowTime(at, p.step), Link: p.link(at)}, false
		for _, values := range p.values {
			if math.IsNaN(values[i]) {
				row.Values = append(row.Values, "–")
				continue
			}
			some = some || values[i] != 0
			row.Values = append(row.Values, p.show(values[i]))
		}
		if some {
			rows = append(rows, row)
		}
	}
	return rows
}

// scale returns the top of an axis for numbers up to largest, and its ticks: round
// numbers, at most six of them, from 0. They are whole, as counts and milliseconds are.
func scale(largest float64) (top float64, ticks []float64) {
	if largest <= 0 {
		return 1, []float64{0, 1}
	}
	magnitude := math.Pow(10, math.Floor(math.Log10(largest/4)))
	step := magnitude
	for _, factor := range []float64{1, 2, 5, 10} {
		if step = magnitude * factor; largest/step <= 5 {
			break
		}
	}
	step = max(1, step)
	n := int(math.Ceil(largest/step - 1e-9))
	for i := range n + 1 {
		ticks = append(ticks, float64(i)*step)
	}
	return float64(n) * step, ticks
}

// spread returns at most n indexes of size items, evenly.
func spread(size, n int) []int {
	var at []int
	every := max(1, int(math.Ceil(float64(size)/float64(n))))
	for i := 0; i < size; i += every {
		at = append(at, i)
	}
	return at
}

// dotLength is the length of a point that has no neighbours, in units of the picture.
const dotLength = 6

// linePath returns the path of a line. A point that is NaN is a gap; a point between two
// gaps is a dash, as long as dotLength.
func linePath(values []float64, x func(int) float64, y func(float64) float64) string {
	var d strings.Builder
	for i, value := range values {
		if math.IsNaN(value) {
			continue
		}
		command := "L"
		if i == 0 || math.IsNaN(values[i-1]) {
			command = "M"
		}
		if command == "M" && (i+1 == len(values) || math.IsNaN(values[i+1])) {
			d.WriteString("M" + fixed(x(i)-dotLength/2) + " " + fixed(y(value)) + "h" + fixed(dotLength))
			continue
		}
		d.WriteString(command + fixed(x(i)) + " " + fixed(y(value)))
	}
	return d.String()
}

// below returns the path of the area below a line.
func below(values []float64, x func(int) float64, y func(float64) float64) string {
	var d strings.Builder
	from := -1
	for i := range len(values) + 1 {
		there := i < len(values) && !math.IsNaN(values[i])
		switch {
		case there && from < 0:
			from = i
			d.WriteString("M" + fixed(x(i)) + " " + fixed(y(0)) + "L" + fixed(x(i)) + " " + fixed(y(values[i])))
		case there:
			d.WriteString("L" + fixed(x(i)) + " " + fixed(y(values[i])))
		case from >= 0:
			d.WriteString("L" + fixed(x(i-1)) + " " + fixed(y(0)) + "Z")
			from = -1
		}
	}
	return d.String()
}

// fixed returns a coordinate with one digit after the point.
func fixed(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

// axisTime returns a time for the axis of a chart with the step.
func axisTime(at time.Time, step time.Duration) string {
	switch {
	case step >= 24*time.Hour:
		return at.Format("01-02")
	case step >= time.Hour && at.Hour() == 0:
		return at.Format("01-02")
	}
	return at.Format("15:04")
}

// rowTime returns a time for the table of a chart.
func rowTime(at time.Time, step time.Duration) string {
	if step >= 24*time.Hour {
		return at.Format("2006-01-02")
	}
	return at.Format("2006-01-02 15:04")
}
