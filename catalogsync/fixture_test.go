package catalogsync_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
)

// movingList is a platform with a product list that a test changes during the read. Unlike
// dispensarytest, it can add products anywhere in the list.
type movingList struct {
	mu      sync.Mutex
	ids     []string
	largest int                    // page size, 0 means any
	blank   bool                   // return single products without fields
	spoil   func(*catalog.Product) // changes products of pages
	detail  string                 // description of single products
	nulls   []string               // products shown as null on pages
	hidden  []string               // products outside the list, but found by id
	cut     int                    // number of listed products that pages contain, 0 means all
	lists   int                    // requests
	singles int

	// before and after are called before a request is handled and before its response is
	// returned. The request fails with their error.
	before, after func(r *http.Request) error
}

func newMovingList(n int) *movingList {
	m := &movingList{}
	for i := range n {
		m.ids = append(m.ids, fmt.Sprintf("p-%05d", i))
	}
	return m
}

// copy returns a copy of the platform's catalog.
func (m *movingList) copy(t testing.TB, config catalogsync.Config) *catalogsync.Catalog {
	t.Helper()
	config.Catalog = m.catalog(t)
	c, err := catalogsync.New(config)
	require.NoError(t, err)
	return c
}

// catalog returns the catalog of a client of the platform.
func (m *movingList) catalog(t testing.TB) catalog.Service {
	t.Helper()
	return catalogOf(t, m)
}

func catalogOf(t testing.TB, platform http.RoundTripper) catalog.Service {
	t.Helper()
	sandbox := dispensary.USSandbox
	client, err := dispensary.New(dispensary.Site{Environment: sandbox, BaseURL: "https://api.example.com/api", AuthURL: "https://www.example.com"},
		dispensary.WithTokenSource(staticToken{Secret: api.NewSecret("token"), Environment: sandbox}), dispensary.WithTransport(platform), dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1}))
	require.NoError(t, err)
	return client.Catalog
}

type staticToken api.AccessToken

func (s staticToken) Token(context.Context) (api.AccessToken, error) {
	return api.AccessToken(s), nil
}

// hideFromList removes products from the list, but not from reads by id. It returns the
// previously hidden products to the list.
func (m *movingList) hideFromList(ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append(m.hidden, m.ids...)
	slices.Sort(all)
	m.ids = slices.DeleteFunc(all, func(id string) bool { return slices.Contains(ids, id) })
	m.hidden = slices.Clone(ids)
}

// change changes the list.
func (m *movingList) change(change func(ids []string) []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = change(slices.Clone(m.ids))
}

func (m *movingList) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ids)
}

func (m *movingList) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists + m.singles
}

func (m *movingList) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.before != nil {
		if err := m.before(r); err != nil {
			return nil, err
		}
	}
	status, body := m.response(r)
	if m.after != nil {
		if err := m.after(r); err != nil {
			return nil, err
		}
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req-1"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

func (m *movingList) response(r *http.Request) (status int, body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, id, single := strings.Cut(r.URL.Path, "/catalog/products/"); single {
		m.singles++
		if !slices.Contains(m.ids, id) && !slices.Contains(m.hidden, id) {
			return http.StatusNotFound, []byte(`{}`)
		}
		if m.blank {
			return http.StatusOK, []byte(`{"product":{}}`)
		}
		product := movingProduct(id)
		product.DescriptionHTML = m.detail
		body, _ = json.Marshal(map[string]any{"product": product})
		return http.StatusOK, body
	}
	m.lists++
	number, _ := strconv.Atoi(r.URL.Query().Get("page[number]"))
	size, _ := strconv.Atoi(r.URL.Query().Get("page[size]"))
	size = min(size, cmp.Or(m.largest, size))
	served := m.ids[:min(cmp.Or(m.cut, len(m.ids)), len(m.ids))]
	meta := api.Meta{CurrentPage: number, TotalCount: len(m.ids), TotalPages: (len(served) + size - 1) / size}
	if meta.CurrentPage < meta.TotalPages {
		meta.NextPage = meta.CurrentPage + 1
	}
	products := []any{}
	for _, id := range served[min((number-1)*size, len(served)):min(number*size, len(served))] {
		product := movingProduct(id)
		if m.spoil != nil {
			m.spoil(&product)
		}
		if slices.Contains(m.nulls, id) {
			products = append(products, nil)
			continue
		}
		products = append(products, product)
	}
	body, _ = json.Marshal(map[string]any{"products": products, "meta": meta})
	return http.StatusOK, body
}

func movingProduct(id string) catalog.Product {
	v := catalog.Variant{ID: id + "-60", SKU: "MOV-" + id, Status: catalog.StatusAvailable, Primary: true}
	return catalog.Product{ID: id, Name: "Product " + id, Status: catalog.StatusAvailable, VariantCount: 1, PrimaryVariant: &v, Variants: []catalog.Variant{v}}
}
