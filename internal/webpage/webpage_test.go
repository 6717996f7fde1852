package webpage_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

func TestTimesAreReadable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "in less than a second", time.Minute: "in 1 min", -61 * time.Second: "1 min 1 s ago",
		25 * time.Hour: "in 1 d 1 h", 24*time.Hour + time.Minute: "in 1 d", 2*time.Hour + 5*time.Second: "in 2 h",
	} {
		assert.Equal(t, want, webpage.Ago(now.Add(d), now))
	}
	assert.Equal(t, "never", webpage.Ago(time.Time{}, now))
	assert.EqualValues(t, "–", webpage.StampTime(time.Time{}, now))
	assert.EqualValues(t, "–", webpage.ShortTime(time.Time{}, now, time.TimeOnly))
	assert.EqualValues(t, `<time datetime="2026-03-02T08:59:00Z" title="2026-03-02 08:59:00 UTC">1 min ago</time>`, webpage.AgoTime(now.Add(-time.Minute), now))
	assert.EqualValues(t, `<time datetime="2026-03-02T08:59:00Z" title="1 min ago">2026-03-02 08:59:00 UTC</time>`, webpage.StampTime(now.Add(-time.Minute), now))
	east := now.In(time.FixedZone("CET", 3600))
	assert.EqualValues(t, `<time datetime="2026-03-02T09:01:00Z" title="in 1 min">2026-03-02 10:01:00 CET</time>`, webpage.StampTime(now.Add(time.Minute), east))
	assert.EqualValues(t, `<time datetime="2026-03-02T09:01:00Z" title="2026-03-02 10:01:00 CET">10:01</time>`, webpage.ShortTime(now.Add(time.Minute), east, "15:04"))
	assert.EqualValues(t, "never", webpage.AgoTime(time.Time{}, now))
	assert.Equal(t, "{", webpage.Pretty([]byte("{")))
	assert.Equal(t, "{\n  \"a\": 1\n}", webpage.Pretty([]byte(`{"a":1}`)))
}

func TestPlainEscapesReordering(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `a\u202eevil\u2066`, webpage.Plain("a\u202eevil\u2066"))
	assert.Equal(t, "Zoë עברית\n", webpage.Plain("Zoë עברית\n"))
	assert.Equal(t, "{\n  \"a\": \"\\u202evil\"\n}", webpage.Pretty([]byte("{\"a\":\"\u202evil\"}")))
	assert.Equal(t, `\u202evil`, webpage.Pretty([]byte("\u202evil")))
}

func TestHandleAssetsServesFiles(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	webpage.HandleAssets(mux)
	for name, want := range map[string][2]string{"style.css": {"text/css; charset=utf-8", "light dark"}, "icon.svg": {"image/svg+xml; charset=utf-8", "<svg"}} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+name, nil))
		assert.Equal(t, want[0], w.Header().Get("Content-Type"))
		assert.Contains(t, w.Body.String(), want[1])
	}
}

func TestNoticePolicyAllowsOwnSheet(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	page := webpage.Notice{Name: "Maple <EHR>", Title: "Not connected", Text: "a < b", Links: []webpage.Link{{URL: "/go", Text: "Go"}, {URL: "javascript:alert(1)", Text: "Back"}}}
	page.Write(w, http.StatusBadGateway)
	text := w.Body.String()
	_, rest, _ := strings.Cut(text, "<style>")
	sheet, _, _ := strings.Cut(rest, "</style>")
	digest := sha256.Sum256([]byte(sheet))
	assert.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", w.Header().Get("Content-Security-Policy"))
	assert.Equal(t, http.StatusBadGateway, w.Code)
	assert.Equal(t, 1, strings.Count(text, "<style"))
	for _, want := range []string{"<title>Not connected · Maple &lt;EHR&gt;</title>", "<h1>Not connected</h1>", "<p>a &lt; b</p>", `<a class="go" href="/go">Go</a>`, ">Back</a>"} {
		assert.Contains(t, text, want)
	}
	for _, unwanted := range []string{"style=", "<script", "javascript:", "reference"} {
		assert.NotContains(t, text, unwanted)
	}
}

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
	assert.Contains(t, text, `<title>09:30, handled 1,200</title><rect class="done" x="941" y="0.0" width="8" height="99.0"/>`)
	assert.Contains(t, text, `<title>08:45, &lt;failed&gt; 2</title><rect class="due" x="911" y="98.0" width="8" height="1.0"/>`)
	assert.Contains(t, text, ">1,200 in 15 min</p>")
	assert.Contains(t, text, "<span>10:00 UTC</span><span>13:00</span>")
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

func TestOldOutcomesAreRemoved(t *testing.T) {
	t.Parallel()
	var o webpage.Outcomes[int]
	assert.Nil(t, o.Find(""))
	names := map[string]bool{}
	var all []string
	for n := range 100 {
		all = append(all, o.Keep(n))
		names[all[n]] = true
	}
	assert.Len(t, names, 100)
	for n, name := range all {
		if n < 36 {
			assert.Nil(t, o.Find(name), n)
		} else {
			assert.Equal(t, n, *o.Find(name))
		}
	}
	for _, name := range []string{"", "1", "99"} {
		assert.Nil(t, o.Find(name), name)
	}
}

// The parts of a bar differ for all people, on gray paper, and from their card.
func TestChartColorsDiffer(t *testing.T) {
	t.Parallel()
	sheet := ""
	for _, name := range []string{"base.css", "style.css"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		sheet += string(text)
	}
	for scheme, mode := range []string{"light", "dark"} {
		color := func(name string) rgb {
			found := regexp.MustCompile("--" + name + `: light-dark\(#(\w{6}), #(\w{6})\)`).FindStringSubmatch(sheet)
			require.NotNil(t, found, name)
			return newRGB(t, found[scheme+1])
		}
		names := []string{"bar-dead", "bar-retry", "bar-handled"}
		for n, name := range names {
			assert.Greater(t, contrast(color(name), color("card")), 3.0, "%s %s on its card", mode, name)
			for _, other := range names[:n] {
				assert.Greater(t, contrast(color(name), color(other)), 1.6, "%s %s and %s in gray", mode, name, other)
				for vision, matrix := range visions {
					assert.Greater(t, distance(color(name).seen(matrix), color(other).seen(matrix)), 25.0, "%s %s and %s with %s", mode, name, other, vision)
				}
			}
		}
	}
}

// rgb is a color in linear light.
type rgb [3]float64

func newRGB(t *testing.T, hex string) (c rgb) {
	for n := range c {
		value, err := strconv.ParseUint(hex[2*n:2*n+2], 16, 8)
		require.NoError(t, err)
		if c[n] = float64(value) / 255; c[n] <= 0.04045 {
			c[n] /= 12.92
		} else {
			c[n] = math.Pow((c[n]+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// contrast is the contrast ratio of WCAG.
func contrast(a, b rgb) float64 {
	return (max(a.luminance(), b.luminance()) + 0.05) / (min(a.luminance(), b.luminance()) + 0.05)
}

// visions are the matrices of Machado, Oliveira and Fernandes for complete color blindness.
var visions = map[string][3]rgb{
	"normal vision": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"deuteranopia":  {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.01182, 0.04294, 0.968881}},
	"protanopia":    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
}

func (c rgb) seen(matrix [3]rgb) (seen rgb) {
	for n, row := range matrix {
		seen[n] = max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2])
	}
	return seen
}

// distance is the distance of two colors in CIELAB (CIE76). Below 10, two areas are hard to
// distinguish.
func distance(a, b rgb) float64 {
	one, other := a.lab(), b.lab()
	return math.Sqrt(math.Pow(one[0]-other[0], 2) + math.Pow(one[1]-other[1], 2) + math.Pow(one[2]-other[2], 2))
}

func (c rgb) lab() [3]float64 {
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	x, y, z := f((0.4124*c[0]+0.3576*c[1]+0.1805*c[2])/0.95047), f(c.luminance()), f((0.0193*c[0]+0.1192*c[1]+0.9505*c[2])/1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}
