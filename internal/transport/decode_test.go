package transport

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/operation"
)

func TestIncompleteContentFails(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                          "has no products",
		`{"products":null,"meta":{}}`: "has no products",
		`{"products":[]}`:             "has no meta",
		`{"products":{"size":"canary"},"meta":{}}`: "has no products",
		`["canary"]`:    "is not a JSON object",
		`{"products":[`: "malformed JSON at byte",
		`<html>canary`:  "malformed JSON at byte",
		`{"products":[],"meta":{"total_pages":{}}}`: "field meta.total_pages does not fit",
	} {
		transport := says(200, body)
		_, err := collect(t, newTestClient(t, transport), api.ListSettings{})
		require.ErrorIs(t, err, api.ErrBadResponse, body)
		assert.Regexp(t, want, err.Error())
		for _, text := range texts(err) {
			assert.NotContains(t, text, "canary")
			assert.NotContains(t, text, "5551234")
		}
		failure := failureOf(t, err)
		assert.Equal(t, body, string(failure.Body()), "the error keeps the body")
	}
}

// report is an invalid field as the observer and the log receive it.
type report struct{ operation, field, id string }

// reporting collects the invalid fields of a client from its observer and its log.
func reporting(observed *[]report, logged *bytes.Buffer) func(*Config) {
	return func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(logged, nil))
		c.Observers = []observe.Observer{{InvalidField: func(_ context.Context, f observe.InvalidField) {
			*observed = append(*observed, report{f.Operation, f.Field, f.RecordID})
		}}}
	}
}

func TestInvalidRecordKeepsList(t *testing.T) {
	t.Parallel()
	var observed []report
	var logged bytes.Buffer
	transport := says(200, `{"products":[{"id":"p1","size":1},{"size":"canary","id":"p2"},null,"canary",{"id":17,"size":"3"},{"id":"555 canary","size":[]}],"meta":{"total_pages":1}}`)
	ids, err := collect(t, newTestClient(t, transport, reporting(&observed, &logged)), api.ListSettings{})
	require.NoError(t, err)
	assert.Equal(t, []string{"p1", "p2", "17", "555 canary"}, ids)
	assert.Equal(t, []report{
		{"products.list", "products[1].size", "p2"}, {"products.list", "products[2]", ""},
		{"products.list", "products[3]", ""}, {"products.list", "products[5].size", ""},
	}, observed)
	assert.Contains(t, logged.String(), "level=WARN")
	assert.Contains(t, logged.String(), "operation=products.list field=products[1].size record_id=p2")
	assert.NotContains(t, logged.String(), "canary")
}

func TestInvalidMetaFailsAfterManyInvalidFields(t *testing.T) {
	t.Parallel()
	transport := says(200, `{"products":[`+strings.Repeat(`{"id":"p","size":"x"},`, 150)+`{"id":"p"}],"meta":{"total_pages":"x"}}`)
	_, err := collect(t, newTestClient(t, transport), api.ListSettings{})
	require.ErrorIs(t, err, api.ErrBadResponse)
	assert.ErrorContains(t, err, "meta.total_pages")
}

func TestInvalidPreviousPageKeepsList(t *testing.T) {
	t.Parallel()
	var observed []report
	transport := metas(`{"current_page":1,"next_page":2,"prev_page":false,"total_pages":2,"total_count":2}`, `{"current_page":2,"prev_page":{},"total_pages":2,"total_count":2}`)
	ids, err := collect(t, newTestClient(t, transport, reporting(&observed, new(bytes.Buffer))), api.ListSettings{})
	require.NoError(t, err)
	assert.Len(t, ids, 2)
	assert.Equal(t, []report{{"products.list", "meta.prev_page", ""}, {"products.list", "meta.prev_page", ""}}, observed)
}

func TestInvalidFieldKeepsRecord(t *testing.T) {
	t.Parallel()
	var observed []report
	transport := says(200, `{"patient":{"id":"p","size":1e999}}`)
	client := newTestClient(t, transport, reporting(&observed, new(bytes.Buffer)))
	one, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
	require.NoError(t, err)
	assert.Equal(t, &thing{ID: "p"}, one)
	assert.Equal(t, []report{{"patients.get", "patient.size", "p"}}, observed)
}

func TestRecordWithoutIDFails(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"patient":{}}`, `{"patient":{"id":null}}`, `{"patient":{"id":""}}`, `{"patient":{"id":{}}}`} {
		var observed []report
		client := newTestClient(t, says(200, body), reporting(&observed, new(bytes.Buffer)))
		_, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
		require.ErrorIs(t, err, api.ErrBadResponse, body)
		assert.ErrorContains(t, err, "patient has no id")
		_, err = One[thing](t.Context(), client, Call{Operation: operation.PatientCreate})
		require.ErrorIs(t, err, api.ErrMaybeApplied, body)
		assert.Empty(t, observed)
	}
}

// Calls share buffers, so decoded values must not change when a buffer is reused.
func TestDecodedValuesOutliveBuffer(t *testing.T) {
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

func TestNullListIsEmptyWithoutRecords(t *testing.T) {
	t.Parallel()
	for meta, empty := range map[string]bool{
		`{"current_page":1,"next_page":null,"total_pages":0,"total_count":0}`: true,
		`{"current_page":1,"next_page":null,"total_pages":1,"total_count":0}`: true,
		`{"current_page":1,"next_page":null,"total_pages":1,"total_count":4}`: false,
		`{"current_page":1,"next_page":2,"total_pages":2,"total_count":0}`:    false,
		`{"total_count":0}`: false,
		`null`:              false,
	} {
		for _, list := range []string{`"products":null,`, ``} {
			client := newTestClient(t, says(200, `{`+list+`"meta":`+meta+`}`))
			page, err := listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{}).Page(t.Context())
			if !empty {
				require.ErrorIs(t, err, api.ErrBadResponse, meta)
				continue
			}
			require.NoError(t, err, meta)
			assert.Empty(t, page.Items)
			got, err := collect(t, client, api.ListSettings{})
			require.NoError(t, err, meta)
			assert.Empty(t, got)
		}
	}
}
