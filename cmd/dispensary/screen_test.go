package main

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// span is a text on a screen, in one style.
type span struct {
	column int
	style  style
	text   string
}

// What the command sends beside text: styles, and the removal of a line.
var (
	styled  = regexp.MustCompile("^\x1b\\[([0-9]+)m")
	removed = regexp.MustCompile("[^\n]*\r\x1b\\[K")
)

// screen is what a terminal shows after it was sent a text: lines of spans.
func screen(sent string) (lines [][]span) {
	for line := range strings.SplitSeq(strings.TrimRight(sent, "\n"), "\n") {
		var spans []span
		as, column := style(""), 0
		for line != "" {
			if found := styled.FindStringSubmatch(line); found != nil {
				line = line[len(found[0]):]
				if as = style(found[1]); as == "0" {
					as = ""
				}
				continue
			}
			text, _, _ := strings.Cut(line, "\x1b")
			spans = append(spans, span{column, as, text})
			line, column = line[len(text):], column+utf8.RuneCountInString(text)
		}
		lines = append(lines, spans)
	}
	return lines
}

// plain is a screen without styles.
func plain(lines [][]span) string {
	var text strings.Builder
	for _, line := range lines {
		var one strings.Builder
		for _, s := range line {
			one.WriteString(s.text)
		}
		text.WriteString(strings.TrimRight(one.String(), " ") + "\n")
	}
	return text.String()
}

// Sizes of a picture, in pixels, and its colors, which are those of a dark terminal and
// stand on a light and on a dark page alike.
const (
	cellWidth, cellHeight = 8, 19
	margin, bar           = 16, 34
)

var colors = map[style]string{"": "#d7dee7", bold: "#ffffff", faint: "#9aa5b1", red: "#ff8e86", green: "#56d364", yellow: "#e3b341"}

// apart are the words of a text with the columns at which they begin, split where there is
// more than one space: letters may be of another width than a cell.
var apart = regexp.MustCompile(`\S+( \S+)*`)

// picture draws a screen as SVG.
func picture(title string, lines [][]span) string {
	columns := 0
	for _, line := range strings.Split(plain(lines), "\n") {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	width, height := columns*cellWidth+2*margin, len(lines)*cellHeight+bar+margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label=%[3]q font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">`+"\n", width, height, title)
	fmt.Fprintf(&out, `<rect x=".5" y=".5" width="%d" height="%d" rx="9" fill="#161b22" stroke="#57606a"/>`+"\n", width-1, height-1)
	fmt.Fprintf(&out, `<text x="%d" y="22" fill="%s">$ %s</text>`+"\n", margin, colors[faint], escaped(title))
	for row, line := range lines {
		for _, s := range line {
			for _, at := range apart.FindAllStringIndex(s.text, -1) {
				text := s.text[at[0]:at[1]]
				column, wide := s.column+utf8.RuneCountInString(s.text[:at[0]]), utf8.RuneCountInString(text)
				weight := ""
				if s.style == bold {
					weight = ` font-weight="600"`
				}
				fmt.Fprintf(&out, `<text x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n",
					margin+column*cellWidth, bar+row*cellHeight+14, wide*cellWidth, colors[s.style], weight, escaped(text))
			}
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder takes everything
	return out.String()
}

func TestScreen(t *testing.T) {
	t.Parallel()
	lines := screen("\x1b[1mTIME  é\x1b[0m x\n\x1b[31m503 & <\x1b[0m\n0\n")
	assert.Equal(t, "one\nthree\n", removed.ReplaceAllString("one\n1\r\x1b[K2\r\x1b[Kthree\n", ""))
	assert.Equal(t, [][]span{{{0, bold, "TIME  é"}, {7, "", " x"}}, {{0, red, "503 & <"}}, {{0, "", "0"}}}, lines)
	assert.Equal(t, "TIME  é x\n503 & <\n0\n", plain(lines))
	drawn := picture("dispensary listen", lines)
	assert.Contains(t, drawn, `<text x="16" y="48" textLength="32" lengthAdjust="spacingAndGlyphs" fill="#ffffff" font-weight="600">TIME</text>`)
	assert.Contains(t, drawn, `<text x="64" y="48" textLength="8" lengthAdjust="spacingAndGlyphs" fill="#ffffff" font-weight="600">é</text>`)
	assert.Contains(t, drawn, `>503 &amp; &lt;</text>`)
	assert.NoError(t, xml.Unmarshal([]byte(drawn), new(struct{})))
}
