package transport

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func TestRawPagesReturnBodies(t *testing.T) {
	t.Parallel()
	type test struct {
		query  url.Values
		bodies []string // responses from the first page on
		want   []int    // the bodies that the caller gets
		sent   string   // the query of the first request
		err    string
	}
	const first, second = `{"anything":[{"id":"1"}],"meta":{"current_page":1,"total_pages":2,"total_count":2}}`,
		`{"meta":{"current_page":2,"total_pages":2,"total_count":2}, "anything":[7]}`
	for name, c := range map[string]test{
		"all":           {bodies: []string{first, second}, want: []int{0, 1}, sent: "page%5Bsize%5D=100&page%5Bnumber%5D=1"},
		"from page 2":   {query: url.Values{"a": {"b"}, "page[number]": {"2"}, "page[size]": {"1"}}, bodies: []string{second}, want: []int{0}, sent: "a=b&page%5Bsize%5D=1&page%5Bnumber%5D=2"},
		"repeated page": {query: url.Values{"page[number]": {"3"}}, bodies: []string{second}},
		"empty":         {bodies: []string{`{"anything":[],"meta":{"current_page":1,"total_pages":0,"total_count":0}}`}, want: []int{0}},
		"cut off":       {bodies: []string{first, `{"anything":[],"meta":{"current_page":2,"total_pages":2,"total_count":9}}`}, want: []int{0, 1}, err: "incomplete list: it ended after 1 of 9 records"},
		"no meta":       {bodies: []string{`{"anything":[{}]}`}, err: "has no meta"},
		"no array":      {bodies: []string{`{"meta":{"current_page":1,"total_pages":1,"total_count":1}}`}, err: "has no list"},
		"two arrays":    {bodies: []string{`{"a":[],"b":[],"meta":{"current_page":1,"total_pages":1,"total_count":1}}`}, err: "has no single list"},
		"no object":     {bodies: []string{`[]`}, err: "is not a JSON object"},
		"bad number":    {query: url.Values{"page[number]": {"canary"}}, err: "page[number] must be a positive number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := &answers{answer: func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 && c.sent != "" {
					assert.Equal(t, c.sent, r.URL.RawQuery)
				}
				return reply(200, c.bodies[n-1]), nil
			}}
			var want, got []string
			for _, n := range c.want {
				want = append(want, c.bodies[n])
			}
			var last error
			for body, err := range RawPages(t.Context(), newTestClient(t, transport), http.MethodGet, "/x", c.query, nil, nil) {
				if last = err; err == nil {
					got = append(got, string(body))
				}
			}
			assert.Equal(t, want, got)
			if c.err == "" {
				require.NoError(t, last)
				return
			}
			require.ErrorContains(t, last, c.err)
			assert.NotContains(t, last.Error(), "canary")
		})
	}
}

func TestRawPagesOnlyRead(t *testing.T) {
	t.Parallel()
	transport := &answers{}
	for _, err := range RawPages(t.Context(), newTestClient(t, transport), http.MethodPost, "/x", nil, nil, nil) {
		require.ErrorIs(t, err, api.ErrArgument)
	}
}
