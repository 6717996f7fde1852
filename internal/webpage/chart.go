package webpage

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// Chart shows the numbers of one day as stacked bars, one for each quarter of an hour.
type Chart struct {
	// Start is the start of the first bar, at a full hour.
	Start time.Time

	// Series are the parts of each bar, from bottom to top.
	Series []Series
}

// Series is one part of every bar of a [Chart].
type Series struct {
	Name  string
	Class string // CSS class with its color
	Bars  [Bars]int
}

// Bars is the number of bars of a [Chart].
const Bars = 24 * 4

// NewChart returns a chart that ends with the hour of now.
func NewChart(now time.Time, series ...Series) Chart {
	return Chart{Start: now.Truncate(time.Hour).Add(-23 * time.Hour), Series: series}
}

// Add adds n to the series with an index, in the bar of a time. It ignores times outside the
// chart.
func (c *Chart) Add(series int, at time.Time, n int) {
	if bar := int(at.Sub(c.Start) / (15 * time.Minute)); !at.Before(c.Start) && bar < Bars {
		c.Series[series].Bars[bar] += n
	}
}

// Sum returns the sum of a series in the hour with an index from 0 to 23.
func (c *Chart) Sum(series, hour int) (n int) {
	for _, bar := range c.Series[series].Bars[4*hour : 4*hour+4] {
		n += bar
	}
	return n
}

// Hour returns the start of an hour.
func (c *Chart) Hour(hour int) time.Time { return c.Start.Add(time.Duration(hour) * time.Hour) }

// Total returns the sum of a series in the whole chart.
func (c *Chart) Total(series int) (n int) {
	for hour := range 24 {
		n += c.Sum(series, hour)
	}
	return n
}

const (
	chartHeight = 100
	barWidth    = 10
	leastHeight = 2.0 // minimum height of a part above 0
	partGap     = 1.0 // between the parts of a bar
)

// HTML returns the chart with a legend and the height of the top line above, and the hours below.
// Hours are in the location of Start, and the first one names it.
func (c *Chart) HTML() template.HTML {
	var b strings.Builder
	b.WriteString(`<figure class="chart"><figcaption>`)
	for n, series := range c.Series {
		fmt.Fprintf(&b, `<span class="%s">%s <b>%s</b></span> `, series.Class, template.HTMLEscapeString(series.Name), Number(c.Total(n)))
	}
	most := 1
	for bar := range Bars {
		most = max(most, c.height(bar))
	}
	fmt.Fprintf(&b, `</figcaption><p class="top" aria-hidden="true">%s in 15 min</p><svg viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true">`, Number(most), Bars*barWidth, chartHeight)
	for bar := range Bars {
		if c.height(bar) > 0 {
			c.writeBar(&b, bar, most)
		}
	}
	b.WriteString(`</svg><p class="hours" aria-hidden="true">`)
	form := "15:04 MST"
	for hour := 0; hour < 24; hour += 3 {
		b.WriteString("<span>" + c.Hour(hour).Format(form) + "</span>")
		form = "15:04"
	}
	b.WriteString(`</p></figure>`)
	return template.HTML(b.String())
}

// height returns the sum of all series in a bar.
func (c *Chart) height(bar int) (n int) {
	for _, series := range c.Series {
		n += series.Bars[bar]
	}
	return n
}

// writeBar writes a bar with a title. A bar with the sum most has the full height.
func (c *Chart) writeBar(b *strings.Builder, bar, most int) {
	b.WriteString("<g><title>" + c.Start.Add(time.Duration(bar)*15*time.Minute).Format("15:04"))
	for _, series := range c.Series {
		if n := series.Bars[bar]; n > 0 {
			b.WriteString(", " + template.HTMLEscapeString(series.Name) + " " + Number(n))
		}
	}
	b.WriteString("</title>")
	top := float64(chartHeight)
	for _, series := range c.Series {
		if n := series.Bars[bar]; n > 0 {
			height := max(leastHeight, float64(chartHeight)*float64(n)/float64(most))
			top -= height
			fmt.Fprintf(b, `<rect class="%s" x="%d" y="%.1f" width="%d" height="%.1f"/>`, series.Class, bar*barWidth+1, max(0, top), barWidth-2, max(partGap, height-partGap))
		}
	}
	b.WriteString("</g>")
}

// Number formats a number with commas between thousands.
func Number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
