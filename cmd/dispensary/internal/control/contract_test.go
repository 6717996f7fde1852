package control

import (
	"flag"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

var update = flag.Bool("update", false, "write openapi.yaml anew")

// The document is the route table and its structs, no more and no less.
func TestContract(t *testing.T) {
	want := writeContract(Operations())
	if *update {
		require.NoError(t, os.WriteFile("openapi.yaml", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(contract), "run this test with -update and read what changed")
	assert.NotContains(t, want, "\t", "YAML knows no tabs")
}

// documented reads operations out of the document without trusting its writer.
func documented(t *testing.T) map[string]string {
	t.Helper()
	operations := map[string]string{}
	var path, method string
	for line := range strings.SplitSeq(string(contract), "\n") {
		switch {
		case regexp.MustCompile(`^  /\S*:$`).MatchString(line):
			path = strings.TrimSuffix(strings.TrimSpace(line), ":")
		case regexp.MustCompile(`^    (get|put|post|patch|delete):$`).MatchString(line):
			method = strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(line), ":"))
		case strings.HasPrefix(line, "      operationId: "):
			operations[method+" "+path] = strings.TrimPrefix(line, "      operationId: ")
		}
	}
	return operations
}

func TestContractAndHandlerAgree(t *testing.T) {
	t.Parallel()
	operations := documented(t)
	require.Len(t, operations, len(Operations()))
	api := New(dispensarytest.New(t, dispensarytest.WithInMemory()), Options{})
	ids := map[string]bool{}
	for _, op := range Operations() {
		assert.Equal(t, op.ID, operations[op.Method+" "+op.Path], "the table's row is in the document")
		assert.False(t, ids[op.ID], "%s is there twice", op.ID)
		ids[op.ID] = true
		assert.True(t, strings.HasSuffix(op.Summary, "."), op.ID)
	}
	for name := range operations {
		method, path, _ := strings.Cut(name, " ")
		_, pattern := api.mux.Handler(requestFor(t, method, regexp.MustCompile(`{[a-z_]+}`).ReplaceAllString(path, "x")))
		assert.Equal(t, name, pattern, "the document's operation is answered")
	}
}

// Linters and readers of the document ask for these.
func TestTheContractIsComplete(t *testing.T) {
	t.Parallel()
	text := string(contract)
	assert.Contains(t, text, "\nsecurity: []\n", "it says that no credentials are needed")
	assert.Contains(t, text, "\n  contact:\n")
	assert.Contains(t, text, "\n  license:\n")
	tagged := regexp.MustCompile(`(?m)^      tags: \[(\w+)\]$`).FindAllStringSubmatch(text, -1)
	assert.Len(t, tagged, len(Operations()))
	for _, tag := range tagged {
		assert.Regexp(t, `(?m)^  - name: `+tag[1]+`\n    description: ".+\."$`, text, "what %s is", tag[1])
	}
}

func requestFor(t *testing.T, method, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
	require.NoError(t, err)
	return r
}
