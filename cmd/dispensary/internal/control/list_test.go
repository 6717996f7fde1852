package control

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Lists are read page by page, either way, and no page is large.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, dispensarytest.WithWorldSize(model.WorldSize{Patients: 700}))
	for _, way := range []string{"ASC", "DESC"} {
		var ids []string
		for after := ""; ; {
			query := "/patients?limit=300&order_by=" + way + "&after=" + after
			for _, row := range r.ok("GET", query, "", "patients").([]any) {
				ids = append(ids, row.(map[string]any)["id"].(string))
			}
			assert.Equal(t, 700.0, r.ok("GET", query, "", "total"))
			next, more := r.ok("GET", query, "", "next").(string)
			if !more {
				break
			}
			after = next
		}
		patients := r.fake.Patients.All()
		require.Len(t, ids, len(patients))
		for n, p := range patients {
			if way == "DESC" {
				n = len(ids) - 1 - n
			}
			assert.Equal(t, p.ID, ids[n])
		}
	}
	r.refused("GET", "/patients?order_by=up", "", 422, "ASC or DESC")
	r.refused("GET", "/patients?after=x", "", 404, "no row x")
	patient := r.fake.Patients.All()[3]
	assert.Len(t, r.ok("GET", "/patients?email="+patient.Email, "", "patients"), 1)
}

func TestNoPageIsLarge(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	r.receiver()
	for n := range 120 {
		r.ok("PUT", "/products/"+r.fake.Products.All()[n%44].ID+"/description", fmt.Sprintf(`{"description_html":"%01000d"}`, n))
	}
	r.ok("POST", "/clock/advance", `{"by":"0s"}`)
	for _, path := range []string{"/events", "/deliveries", "/products", "/journal"} {
		status, body := New(r.fake, Options{}).Call(t.Context(), http.MethodGet, path+"?limit=1000", nil)
		require.Equal(t, 200, status)
		assert.LessOrEqual(t, len(body), 100_000, path)
	}
	assert.Len(t, r.fake.Webhooks.Deliveries(), 120)
	assert.Equal(t, 120.0, r.ok("GET", "/deliveries?event_type=product.description.updated", "", "total"))
	assert.Equal(t, 0.0, r.ok("GET", "/deliveries?delivered=false", "", "total"))
}
