package webpage_test

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

func TestChartSumsHours(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 40, 0, 0, time.UTC)
	c := webpage.NewChart(now, webpage.Series{Name: "handled", Class: "done"}, webpage.Series{Name: "<failed>", Class: "due"})
	c.Add(0, now, 1200)
	c.Add(1, now.Add(-39*time.Minute), 1)
	c.Add(1, now.Add(-41*time.Minute), 2)
	c.Add(0, c.Start, 7)
	c.Add(0, c.Start.Add(-time.Nanosecond), 1000)
	c.Add(0, c.Hour(24), 1000)
	assert.Equal(t, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), c.Start)
	assert.Equal(t, []int{1200, 7, 1, 2}, []int{c.Sum(0, 23), c.Sum(0, 0), c.Sum(1, 23), c.Sum(1, 22)})
	assert.Equal(t, 1207, c.Total(0))

	text := string(c.HTML())
	assert.Contains(t, text, `<span class="due">&lt;failed&gt; <b>3</b></span>`)
	assert.Contains(t, text, `<title>09:30, handled 1,200</title><rect class="done" x="941" y="0.0" width="8" height="100.0"/>`)
	assert.Contains(t, text, `<title>08:45, &lt;failed&gt; 2</title><rect class="due" x="911" y="98.5" width="8" height="1.5"/>`)
	assert.Equal(t, 4, strings.Count(text, "<rect"), "one rectangle for each part above 0")
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := decoder.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
}

func TestNumberSeparatesThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		assert.Equal(t, want, webpage.Number(n))
	}
}
