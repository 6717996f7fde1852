package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
)

// RawPages is [Raw] for a list. It returns the unmodified body of each page, and fails like the
// lists of [NewList]. The query may contain the number of the first page and the page size.
func RawPages(ctx context.Context, c *Client, method, path string, query url.Values, body any, options []api.RequestOption) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		call, err := newRawCall(method, path, maps.Clone(query), body, options)
		if err == nil && method != http.MethodGet {
			err = call.invalid("Method", "must be GET")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		var page []byte
		call.page = &page
		settings := api.ListSettings{StartAt: call.takeNumber("page[number]"), PageSize: call.takeNumber("page[size]")}
		readPages(ctx, c, newListRun(newListCall(call), settings), func(read *api.Page[json.RawMessage], err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			// No items: the platform repeated an earlier page instead of an empty one.
			return read.Items == nil || yield(page, nil)
		})
	}
}

// takeNumber removes a parameter from the query and returns its number, or 0 if it is missing.
func (c *Call) takeNumber(name string) int {
	query := c.Query.(url.Values)
	text := query.Get(name)
	query.Del(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		c.wrong = append(c.wrong, c.invalid(name, "must be a positive number"))
	}
	return max(n, 0)
}

// setRawPage stores the body of a page, and sets its response key to the name of the only array
// in the body.
func (s *callState) setRawPage() {
	*s.call.page = bytes.Clone(s.answer.body.Bytes())
	op := *s.call.Operation
	op.Key, op.List = "list", true // of the error if there is no array
	var members map[string]json.RawMessage
	_ = json.Unmarshal(*s.call.page, &members) // decodePage reports the error
	arrays := 0
	for name, value := range members {
		if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '[' {
			op.Key = name
			arrays++
		}
	}
	if arrays > 1 {
		op.Key = "single list"
	}
	s.call.Operation = &op
}
