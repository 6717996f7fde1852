package control

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Times and pointers are nullable. Durations and amounts are strings. A stored body is text.
func TestContractDescribesTypes(t *testing.T) {
	t.Parallel()
	text := string(contract())
	for _, want := range []string{`
  /events/{event_id}/delivery:
    get:
      operationId: events.wait_delivered
      summary: "Waits until an event was delivered for every integration. Returns the reason if it was not."
      tags: [events]
      parameters:
        - {name: event_id, in: path, required: true, schema: {type: string}}
        - {name: timeout, in: query, description: "longest wait: default 5s, at most 1m", schema: {type: string}}
      responses:
        "200":
          description: Done
          content: {application/json: {schema: {$ref: '#/components/schemas/Outcome'}}}
        4XX: {$ref: '#/components/responses/Refused'}
`, `
  /faults/{fault_id}:
    delete:
      operationId: faults.remove
`, `
        - {name: limit, in: query, description: "maximum number of rows: default 100, at most 1000. A page also ends at 96 KiB.", schema: {type: integer, minimum: 0}}
`, `
          content: {application/json: {schema: {type: object, properties: {skips: {type: array, items: {$ref: '#/components/schemas/Skip'}}, next: {type: [string, 'null']}, total: {type: integer}}, required: [skips, next, total]}}}
`, `
          content: {application/json: {schema: {anyOf: [{$ref: '#/components/schemas/Endpoint'}, {type: 'null'}]}}}
`, `
      requestBody:
        content: {application/json: {schema: {$ref: '#/components/schemas/Refund'}}}
`, `
    Refund:
      type: object
      properties:
        amount: {type: string, examples: ["19.99"]}
`, `
    Nothing:
      type: object
`, `
        now: {type: [string, 'null'], format: date-time}
        frozen: {type: boolean}
`, `
        chance: {type: number}
        seed: {type: integer}
        delay: {type: string, examples: [1m30s]}
`, `
        request_body: {type: string}
`, `
        object_id: {type: string}
        data: {}
`} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "\t", "YAML has no tabs")
}

// Linters and generators need all of these parts.
func TestContractIsComplete(t *testing.T) {
	t.Parallel()
	text := string(contract())
	assert.Contains(t, text, "\nsecurity: []\n", "no credentials are needed")
	assert.Contains(t, text, "\n  contact:\n")
	assert.Contains(t, text, "\n  license:\n")
	tagged := regexp.MustCompile(`(?m)^      tags: \[(\w+)\]$`).FindAllStringSubmatch(text, -1)
	assert.Len(t, tagged, len(Operations()))
	for _, op := range Operations() {
		assert.Equal(t, 1, strings.Count(text, "\n      operationId: "+op.ID+"\n"), op.ID)
		assert.True(t, strings.HasSuffix(op.Summary, "."), op.ID)
	}
	for _, ref := range regexp.MustCompile(`#/components/\w+/(\w+)`).FindAllStringSubmatch(text, -1) {
		assert.True(t, strings.Contains(text, "\n    "+ref[1]+":\n"), "%s is not a component", ref[1])
	}
	for _, tag := range tagged {
		assert.Regexp(t, `(?m)^  - name: `+tag[1]+`\n    description: ".+\."$`, text, "description of the tag %s", tag[1])
	}
}
