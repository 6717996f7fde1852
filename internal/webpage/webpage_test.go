package webpage_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
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
