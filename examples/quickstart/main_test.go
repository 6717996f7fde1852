package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAllStepsArePrinted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	output := out.String()
	steps := regexp.MustCompile(`(?m)^ ?\d+\. `).FindAllString(output, -1)
	assert.Len(t, steps, 13)
	for i, line := range strings.Split(output, "\n") {
		if strings.Contains(line, "[request ]") {
			t.Errorf("line %d has no request id: %s", i+1, line)
		}
	}
	for _, want := range []string{"order.placed", "must authorize again", "clinic.Patient("} {
		assert.Contains(t, output, want)
	}
	for _, hidden := range []string{"Robin", "robin.example"} {
		assert.NotContains(t, output, hidden, "the patient's name is printed nowhere")
	}
}
