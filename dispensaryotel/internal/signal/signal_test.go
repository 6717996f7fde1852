package signal

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only this package creates attributes, names span events or writes the text of a status. The
// rest of the module does not import the packages for it.
func TestOnlySignalCreatesAttributes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if strings.HasPrefix(imported, "go.opentelemetry.io/") {
				assert.Contains(t, []string{
					"go.opentelemetry.io/otel", // the global providers
					"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/propagation",
				}, imported, name)
			}
		}
	}
}

func TestTextIsCutAt128Bytes(t *testing.T) {
	t.Parallel()
	value := RequestID.Of(strings.Repeat("ü", 100)).pair.Value.AsString()
	assert.Equal(t, strings.Repeat("ü", 64), value)
	assert.Equal(t, "a�", RequestID.Of("a\xff").pair.Value.AsString())
	cut := RequestID.Of("x" + strings.Repeat("ü", 100)).pair.Value.AsString()
	assert.Equal(t, "x"+strings.Repeat("ü", 63)+"�", cut)
}
