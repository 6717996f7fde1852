package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/openapi"
)

func TestDocumentListsAllOperations(t *testing.T) {
	t.Parallel()
	text := string(openapi.Document())
	assert.Contains(t, text, "\nopenapi: 3.1.0\n")
	// internal/lab/contract checks the rest. This test needs no YAML reader.
	assert.Equal(t, 62+11, strings.Count(text, "\n      operationId: "), "61 endpoints, the authorize page, 11 webhooks")
	assert.NotContains(t, text, "\t", "YAML allows no tabs")
}

func TestDocumentReturnsCopy(t *testing.T) {
	t.Parallel()
	before := openapi.Document()
	before[0] = '!'
	assert.NotEqual(t, before, openapi.Document())
}

// Print the title of the document. You can also serve the document unchanged.
func ExampleDocument() {
	for line := range strings.SplitSeq(string(openapi.Document()), "\n") {
		if strings.HasPrefix(line, "openapi:") || strings.HasPrefix(line, "  title:") {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	// Output:
	// openapi: 3.1.0
	// title: Dispensary integration API
}
