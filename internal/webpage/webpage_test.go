package webpage_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
	assert.Equal(t, "–", webpage.Stamp(time.Time{}))
	assert.Equal(t, "2026-03-02 09:00:00 UTC", webpage.Stamp(now.In(time.FixedZone("", 3600))))
	assert.EqualValues(t, `<time datetime="2026-03-02T08:59:00Z" title="2026-03-02 08:59:00 UTC">1 min ago</time>`, webpage.AgoTime(now.Add(-time.Minute), now))
	assert.EqualValues(t, `<time datetime="2026-03-02T08:59:00Z" title="1 min ago">2026-03-02 08:59:00 UTC</time>`, webpage.StampTime(now.Add(-time.Minute), now))
	east := now.In(time.FixedZone("CET", 3600))
	assert.EqualValues(t, `<time datetime="2026-03-02T09:01:00Z" title="in 1 min, 2026-03-02 10:01:00 CET">2026-03-02 09:01:00 UTC</time>`, webpage.StampTime(now.Add(time.Minute), east))
	assert.EqualValues(t, "never", webpage.AgoTime(time.Time{}, now))
	assert.Equal(t, "{", webpage.Pretty([]byte("{")))
	assert.Equal(t, "{\n  \"a\": 1\n}", webpage.Pretty([]byte(`{"a":1}`)))
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
