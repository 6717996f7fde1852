package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// A position must survive a URL unchanged, and any other text must fail.
func TestPositionRoundTripsText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	for _, p := range []engine.Position{{}, {At: at}, {At: at, Seq: 7}, {At: at, Seq: -1}, {At: time.Unix(-1, 0).UTC(), Seq: 1}} {
		text, err := p.MarshalText()
		require.NoError(t, err)
		read := engine.Position{At: time.Now(), Seq: 1}
		require.NoError(t, read.UnmarshalText(text))
		assert.Equal(t, p, read)
	}
	for _, text := range []string{".", "1", "1.", ".1", "1.x", "1.1.1", "99999999999999999999.1", " 1.1"} {
		read := engine.Position{At: at}
		require.Error(t, read.UnmarshalText([]byte(text)), text)
		assert.Equal(t, engine.Position{At: at}, read, "a failed parse must not change the position")
	}
}

func FuzzPosition(f *testing.F) {
	f.Add("1772600767000008.7")
	f.Add("-1.-1")
	f.Fuzz(func(t *testing.T, text string) {
		var p, again engine.Position
		if p.UnmarshalText([]byte(text)) != nil {
			return
		}
		require.NoError(t, again.UnmarshalText([]byte(p.String())))
		require.Equal(t, p, again)
		require.Zero(t, p.Compare(again))
	})
}
