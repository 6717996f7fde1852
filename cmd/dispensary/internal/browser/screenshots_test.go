package browser

import (
	"bytes"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// screenshots is the directory of the README's pictures.
const screenshots = "../../../../docs/screenshots"

// most is the largest size of a picture, in bytes.
const most = 150_000

// The README shows these pages. Machines draw letters differently, so only -update writes the
// pictures. Without it, the test checks only the size of the existing pictures.
func TestScreenshotsFitSizeLimit(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	attempts := s.deliverForADay()
	s.fill()
	s.attempted(attempts + 1)
	s.fake.Clock.Advance(10 * time.Minute)
	s.status.Store(http.StatusOK)
	_, _, err := s.fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	s.attempted(attempts + 4)
	b.look("light", 1000)
	b.signIn(s)
	b.picture("consent", 640, 1080)
	b.visit(s.console + "deliveries")
	b.picture("deliveries", 1240, 760)
	b.visit(s.console + "timeline")
	b.picture("timeline", 1000, 690)
	b.visit(s.console + "clock")
	b.picture("clock", 1000, 640)
	o, accept := newOperations(t)
	o.night(accept)
	b.visit(o.url)
	b.picture("overview", 1240, 960)
	b.press("patients.get")
	b.picture("deadletters", 1240, 600)
}

// deliverForADay delivers events for 20 hours and returns the number of attempts. The endpoint
// fails for two hours.
func (s *fixture) deliverForADay() (attempts int) {
	s.t.Helper()
	for hour := range 20 {
		s.status.Store(http.StatusOK)
		if hour == 12 || hour == 13 {
			s.status.Store(http.StatusServiceUnavailable)
		}
		for range 2 + hour*7%5 {
			_, _, err := s.fake.Patients.Create(model.PatientCreate{})
			require.NoError(s.t, err)
			attempts++
		}
		s.attempted(attempts)
		s.fake.Clock.Advance(time.Hour)
		attempts = 0
		for _, d := range s.fake.Webhooks.Deliveries() {
			attempts += len(d.Attempts)
		}
	}
	return attempts
}

// picture writes the open page with -update, and checks the size of the file.
func (b *tab) picture(name string, width, height int64) {
	b.t.Helper()
	b.window(width, height)
	file := filepath.Join(screenshots, name+".png")
	if *update {
		shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{})
		require.NoError(b.t, os.MkdirAll(screenshots, 0o755))
		require.NoError(b.t, os.WriteFile(file, shot.Data, 0o644))
	}
	written, err := os.ReadFile(file)
	require.NoError(b.t, err, "run go test -update to write it")
	assert.Less(b.t, len(written), most, name)
	drawn, err := png.DecodeConfig(bytes.NewReader(written))
	require.NoError(b.t, err)
	assert.Equal(b.t, [2]int64{width, height}, [2]int64{int64(drawn.Width), int64(drawn.Height)}, name)
}
