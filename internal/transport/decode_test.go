package transport

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

func TestAnswersThatLackTheirContent(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                                        "has no products",
		`{"products":null,"meta":{}}`:               "has no products",
		`{"products":[]}`:                           "has no meta",
		`{"products":[{"size":"canary"}]}`:          `field products(\.0)?\.size: a string does not fit int`,
		`{"products":[{"size":5551234.5}]}`:         `field products(\.0)?\.size: a number does not fit int`,
		`{"products":[`:                             "malformed JSON at byte",
		`<html>canary`:                              "malformed JSON at byte",
		`{"products":[],"meta":{"total_pages":{}}}`: "a field has an unknown form",
	} {
		transport := says(200, body)
		_, err := collect(t, newTestClient(t, transport), api.Paging{})
		require.ErrorIs(t, err, api.ErrBadResponse, body)
		assert.Regexp(t, want, err.Error()) // newer releases of Go name the index too
		for _, text := range texts(err) {
			assert.NotContains(t, text, "canary")
			assert.NotContains(t, text, "5551234")
		}
		var failure *api.Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, body, string(failure.Body()), "the body is kept for those who ask")
	}
}

// Buffers are shared: what was decoded must not change when they are used again.
func TestDecodedValuesOutliveTheBuffer(t *testing.T) {
	t.Parallel()
	transport := &answers{answer: func(call int, _ *http.Request) (*http.Response, error) {
		return reply(200, fmt.Sprintf(`{"patient":{"id":"patient-%d"}}`, call)), nil
	}}
	client := newTestClient(t, transport)
	var got []*thing
	for range 50 {
		one, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
		require.NoError(t, err)
		got = append(got, one)
	}
	for i, one := range got {
		assert.Equal(t, fmt.Sprintf("patient-%d", i+1), one.ID)
	}
}
