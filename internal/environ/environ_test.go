package environ_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/environ"
)

func TestErrorsSplitsJoinedErrors(t *testing.T) {
	t.Parallel()
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	wrapped := fmt.Errorf("wrapped: %w", c)
	assert.Empty(t, environ.Errors(nil))
	assert.Equal(t, []error{a}, environ.Errors(a))
	assert.Equal(t, []error{a, b, wrapped}, environ.Errors(errors.Join(errors.Join(a, b), wrapped)))
}

func TestDecodeRemovesByteOrderMark(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"": "", "text": "text", "\ufefftext\r\n": "text\r\n", "\ufeff": "", "a\ufeffb": "a\ufeffb", "caf\xe9": "caf\xe9",
	} {
		text, err := environ.DecodeText([]byte(content))
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
	for _, content := range []string{"\xff\xfet\x00", "\xfe\xff\x00t"} {
		_, err := environ.DecodeText([]byte(content))
		assert.ErrorIs(t, err, environ.ErrUTF16)
	}
}
