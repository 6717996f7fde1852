package clienttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// The floor of these benchmarks is a careful program without this module: net/http,
// oauth2.Transport and encoding/json with its own structs. Read the figures of this module as
// a ratio to the floor:
//
//	go test -run '^$' -bench 'Get|Page|Post' -benchmem .

type (
	floorVariant struct {
		ID             string   `json:"id"`
		SKU            string   `json:"sku"`
		Units          *float64 `json:"units"`
		UnitOfMeasure  *string  `json:"unit_of_measure"`
		UPC            *string  `json:"upc"`
		MSRP           string   `json:"msrp"`
		SupplierSKU    *string  `json:"supplier_sku"`
		Status         *string  `json:"status"`
		Availability   string   `json:"availability"`
		Primary        bool     `json:"primary"`
		ImageURLSmall  string   `json:"image_url_small"`
		ImageURLMedium string   `json:"image_url_medium"`
		ImageURLLarge  string   `json:"image_url_large"`
	}
	floorBrand struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Prefix string `json:"prefix"`
	}
	floorProduct struct {
		ID              string         `json:"id"`
		Name            string         `json:"name"`
		Status          string         `json:"status"`
		VariantCount    int            `json:"variant_count"`
		Brand           floorBrand     `json:"brand"`
		PrimaryVariant  *floorVariant  `json:"primary_variant"`
		DescriptionHTML string         `json:"description_html"`
		Variants        []floorVariant `json:"variants"`
	}
	floorPage struct {
		Products []floorProduct `json:"products"`
		Meta     struct {
			CurrentPage int  `json:"current_page"`
			NextPage    *int `json:"next_page"`
			PrevPage    *int `json:"prev_page"`
			TotalPages  int  `json:"total_pages"`
			TotalCount  int  `json:"total_count"`
		} `json:"meta"`
	}
	floorRecommendation struct {
		VariantID       string `json:"variant_id"`
		Refill          bool   `json:"refill"`
		UnitsToPurchase int    `json:"units_to_purchase"`
		Dosage          struct {
			Amount         string `json:"amount"`
			Frequency      string `json:"frequency"`
			Duration       string `json:"duration"`
			Format         string `json:"format"`
			AdditionalInfo string `json:"additional_info"`
		} `json:"dosage"`
	}
	floorPlan struct {
		ID              string                `json:"id"`
		State           string                `json:"state"`
		PractitionerID  string                `json:"practitioner_id"`
		PersonalMessage string                `json:"personal_message"`
		Recommendations []floorRecommendation `json:"recommendations"`
	}
)

// canned responds to every request with the same bytes, without sockets.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"0f3c1a52"}},
		Body:          io.NopCloser(struct{ io.Reader }{bytes.NewReader(c)}), // a real body is not a WriterTo
		ContentLength: int64(len(c)),
	}, nil
}

func variantJSON(i int) string {
	return fmt.Sprintf(`{"id":"b5f1c1f0-6f0e-4b57-9a53-%012d","sku":"EXB-%05d","units":90,"unit_of_measure":"capsules","upc":"0123456789%02d",
		"msrp":"%d.50","supplier_sku":null,"status":"available","availability":"In Stock","primary":true,
		"image_url_small":"https://images.example/products/%d/small.png","image_url_medium":"https://images.example/products/%d/medium.png",
		"image_url_large":"https://images.example/products/%d/large.png"}`, i, i, i%100, 10+i%90, i, i, i)
}

func productJSON(i int) string {
	return fmt.Sprintf(`{"id":"7c9e6679-7425-40de-944b-%012d","name":"Example Product Number %d","status":"available","variant_count":2,
		"brand":{"id":"16fd2706-8baf-433b-82eb-%012d","name":"Example Brand","prefix":"EXB"},"primary_variant":%s}`, i, i, i%7, variantJSON(i))
}

func pageBody() canned {
	products := make([]string, 100)
	for i := range products {
		products[i] = productJSON(i)
	}
	return canned(`{"products":[` + strings.Join(products, ",") +
		`],"meta":{"current_page":1,"next_page":2,"prev_page":null,"total_pages":100,"total_count":10000}}`)
}

func planBody() ([]byte, []byte) {
	one := `{"variant_id":"b5f1c1f0-6f0e-4b57-9a53-000000000001","refill":true,"units_to_purchase":2,
		"dosage":{"amount":"1-2","frequency":"twice per day","duration":"30","format":"capsule","additional_info":"with food"}}`
	list := strings.Repeat(one+",", 7) + one
	request := []byte(`{"practitioner_id":"d-1","personal_message":"Take care","state":"draft","recommendations":[` + list + `]}`)
	response := []byte(`{"treatment_plan":{"id":"t-1","state":"draft","patient":{"id":"p-1"},"practitioner":{"id":"d-1"},"available_at":null,
		"created_at":"2026-03-04T12:00:00Z","updated_at":"2026-03-04T12:00:00Z","personal_message":"Take care","metadata":{"id":null},
		"recommendations":[` + list + `]}}`)
	return request, response
}

func floorClient(response canned) *http.Client {
	source := oauth2.ReuseTokenSource(nil, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}))
	return &http.Client{Transport: &oauth2.Transport{Source: source, Base: response}}
}

func floorCall(b *testing.B, client *http.Client, method, path string, body any, into any) {
	b.Helper()
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			b.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, "https://platform.example/api"+path, reader)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "floor")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		b.Fatal(response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		b.Fatal(err)
	}
}

func benchClient(b *testing.B, response canned) *dispensary.Client {
	b.Helper()
	client, err := dispensary.New(sandboxSite(), dispensary.WithTokenSource(fixedToken{}),
		dispensary.WithTransport(response))
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// compare runs the floor and this module in one benchmark.
func compare(b *testing.B, size int, floor, ours func(*testing.B)) {
	b.Helper()
	for name, work := range map[string]func(*testing.B){"floor": floor, "ours": ours} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				work(b)
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	response := canned(`{"product":` + productJSON(1) + `}`)
	client, hand := benchClient(b, response), floorClient(response)
	compare(b, len(response), func(b *testing.B) {
		var got struct {
			Product floorProduct `json:"product"`
		}
		floorCall(b, hand, http.MethodGet, "/catalog/products/1", nil, &got)
	}, func(b *testing.B) {
		if _, err := client.Catalog.Products.Get(context.Background(), "1"); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	response := pageBody()
	client, hand := benchClient(b, response), floorClient(response)
	compare(b, len(response), func(b *testing.B) {
		var got floorPage
		floorCall(b, hand, http.MethodGet, "/catalog/products?page%5Bnumber%5D=1&page%5Bsize%5D=100", nil, &got)
	}, func(b *testing.B) {
		if _, err := client.Catalog.Products.List().Page(context.Background()); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkPost(b *testing.B) {
	request, response := planBody()
	var body floorPlan
	var plan treatmentplans.PlanCreate
	for _, into := range []any{&body, &plan} {
		if err := json.Unmarshal(request, into); err != nil {
			b.Fatal(err)
		}
	}
	client, hand := benchClient(b, response), floorClient(response)
	compare(b, len(request)+len(response), func(b *testing.B) {
		var got struct {
			Plan floorPlan `json:"treatment_plan"`
		}
		floorCall(b, hand, http.MethodPost, "/clinic/patients/p-1/treatment_plans", body, &got)
	}, func(b *testing.B) {
		if _, err := client.TreatmentPlans.Create(context.Background(), "p-1", plan); err != nil {
			b.Fatal(err)
		}
	})
}

// Programs with many users create a view for each request.
func BenchmarkView(b *testing.B) {
	client := benchClient(b, nil)
	key := dispensary.NewSecret("key")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.With(dispensary.WithTokenSource(fixedToken{}), dispensary.WithClinicKey(key)); err != nil {
			b.Fatal(err)
		}
	}
}
