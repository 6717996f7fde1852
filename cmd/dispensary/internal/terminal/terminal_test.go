package terminal

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Programs may split a text anywhere, so Writer waits for the rest of a character.
func TestWriterJoinsSplitCharacters(t *testing.T) {
	t.Parallel()
	const text = "é\u009b€\U0001f600\u200d\r\nx\r\ry\xff\xfez"
	const want = "é\\u009b€\U0001f600\u200d\nx\\u000d\\u000dy\ufffd\ufffdz"
	var once, split bytes.Buffer
	_, err := io.WriteString(NewWriter(&once), text)
	require.NoError(t, err)
	assert.Equal(t, want, once.String())
	_, err = io.Copy(NewWriter(&split), iotest.OneByteReader(strings.NewReader(text)))
	require.NoError(t, err)
	assert.Equal(t, want, split.String())
}

func FuzzWriter(f *testing.F) {
	f.Add("A\u009b2J\u202e\u2028\U000e0041\u200d\r\n", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		var out bytes.Buffer
		to := NewWriter(&out)
		at = min(max(at, 0), len(text))
		for _, part := range []string{text[:at], text[at:], "."} {
			n, err := io.WriteString(to, part)
			require.NoError(t, err)
			require.Equal(t, len(part), n)
		}
		require.Empty(t, to.held)
		for _, r := range out.String() {
			joins := r == '\u200c' || r == '\u200d' // letters and emoji
			require.False(t, r != '\n' && r != '\t' && !joins && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp), "%U", r)
		}
		require.Equal(t, Printable(text+"."), out.String())
	})
}
