package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// A misspelt page[size] changes nothing but how many rows come, which is why it
// goes unnoticed. However it is misspelt, the journal has it, with the right name.
func TestMisspeltPageSizeIsReported(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"page[sise]", "page[szie]", "page[Size]", "Page[size]", "PAGE[SIZE]", "page[size", "page%5Bsizes%5D", "page.size", "page_size", "pageSize", "pagesize", "size",
	} {
		for _, list := range []string{"/catalog/products", "/clinic/orders", "/events/patients", "/clinic/search/patients"} {
			b := start(t, WithInMemory())
			b.get(list + "?" + name + "=50").ok(200)
			miss := &verdict{TB: t}
			b.fake.Journal().CheckNoUnexpected(miss)
			require.Len(t, miss.failures, 1, "%s %s", list, name)
			assert.Contains(t, miss.failures[0], `(did you mean "page[size]"?)`, "%s %s", list, name)
		}
	}
}

// Requests that are refused are looked at all the same.
func TestUnknownParametersOfRefusedRequests(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	b.with("catalog:read").get("/clinic/orders?page[sise]=1").refused(403, "scope")
	b.get("/clinic/orders?page[sise]=1&sort_by=price").refused(422, "sort_by")
	lost := *b
	lost.token = "guess"
	lost.get("/clinic/orders?page[sise]=1").refused(401, "invalid")
	for _, r := range b.fake.Journal().Requests() {
		assert.Equal(t, []model.Unread{{Name: "page[sise]", Near: "page[size]"}}, r.Unknown)
	}
}

func TestNearestName(t *testing.T) {
	t.Parallel()
	known := []string{"sort_by", "order_by", "created_at", "allergen_ids[]", "page[number]", "page[size]", "email"}
	for name, want := range map[string]string{
		"sortby": "sort_by", "orderby": "order_by", "create_at": "created_at", "created": "created_at", "allergen_ids": "allergen_ids[]",
		"allergen_ids[0]": "allergen_ids[]", "page": "page[number]", "page[num]": "page[number]", "e-mail": "email", "mail": "email",
		"limit": "", "x": "", "": "", "something else altogether": "",
	} {
		assert.Equal(t, want, closestmatch.To(name, known), name)
	}
	assert.Empty(t, closestmatch.To("email", nil))
	long := string(make([]byte, 1000))
	assert.Empty(t, closestmatch.To(long, known), "no time is spent on nonsense")
}
