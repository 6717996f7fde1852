package dispensary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/oauth"
)

// seeds is how many variations of its answer each operation reads.
const seeds = 80

// Each operation reads its answer as it may look tomorrow: with members that are
// new, in another order, with scalars in every documented form. It decodes to the
// same values.
func TestCompatibleChangesDecodeToTheSame(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for _, op := range operation.All() {
		if op == operation.OAuthAuthorize || op == operation.OAuthRevoke {
			continue // a page for a browser, and an answer that is not read
		}
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			p := &playback{}
			table, s := mutatedCalls(t, p)
			recorded := p.record(t, func() error { _, err := table[op.Name](t.Context(), s); return err })
			if op.List {
				items := parse(t, recorded).(object)[op.Key].([]any)
				require.NotEmpty(t, items, "an empty list says nothing")
			}
			for seed := range uint64(seeds) {
				m := newMutator(seed)
				base := m.rename("", parse(t, recorded))
				want := p.play(t, m, base, func() (any, error) { return table[op.Name](t.Context(), s) })
				varied := m.vary("", base, nil)
				got := p.play(t, m, varied, func() (any, error) { return table[op.Name](t.Context(), s) })
				require.Equal(t, want, got, "seed %d of %s read\n%s", seed, op.Name, p.body)
			}
		})
	}
}

// playback is a transport that records one answer, and plays back what it is
// given from then on.
type playback struct {
	base   http.RoundTripper // nil plays back
	status int
	body   []byte
}

func (p *playback) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.base != nil {
		response, err := p.base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		p.status = response.StatusCode
		p.body, err = io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(p.body))
		return response, err
	}
	return &http.Response{
		StatusCode: p.status, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(p.body)),
		Body: io.NopCloser(bytes.NewReader(p.body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
	}, nil
}

// record returns the answer to a call that reaches the platform.
func (p *playback) record(t *testing.T, call func() error) []byte {
	t.Helper()
	require.NoError(t, call())
	p.base = nil
	return p.body
}

// play makes a call that is answered with a value, and returns what it decoded to.
func (p *playback) play(t *testing.T, m mutator, answer any, call func() (any, error)) string {
	t.Helper()
	var body bytes.Buffer
	m.write(&body, answer)
	p.body = body.Bytes()
	value, err := call()
	require.NoError(t, err, "%s", p.body)
	data, err := json.Marshal(settled(t, value))
	require.NoError(t, err)
	return string(data)
}

// settled is a decoded value without what it keeps as it arrived.
func settled(t *testing.T, value any) any {
	t.Helper()
	switch value := value.(type) {
	case oauth.Token:
		return []any{value.AccessToken.Reveal(), value.RefreshToken.Reveal(), value.TokenType, value.Scope, value.CreatedAt, value.Lifetime, value.ResourceOwner}
	case *events.Event:
		return settledEvent(t, *value)
	case *api.Page[clinic.MetadataEntry]:
		var all []any
		for _, entry := range value.Items {
			var patient clinic.Patient
			require.NoError(t, entry.Decode(&patient))
			all = append(all, entry.ID, entry.Type, patient)
		}
		return all
	case *api.Page[events.Delivery]:
		var all []any
		for _, d := range value.Items {
			e, err := d.Event()
			require.NoError(t, err)
			d.EventPayload = nil
			all = append(all, d, settledEvent(t, e))
		}
		return all
	}
	return value
}

func settledEvent(t *testing.T, e events.Event) any {
	t.Helper()
	typed, err := events.As[clinic.Order](e)
	require.NoError(t, err)
	typed.Event.Data = nil
	return []any{typed.Event, typed.Data}
}

// mutatedCalls are the calls of the table, led through the playback, on a platform
// that has something to answer to each.
func mutatedCalls(t *testing.T, p *playback) (map[string]calltest.Call, *calltest.Fixture) {
	t.Helper()
	s := calltest.NewFixture(t)
	enliven(t, s)
	s.Through(func(base http.RoundTripper) http.RoundTripper { p.base = base; return p })
	table := calltest.All(t)
	// The table's own calls narrow these lists to nothing on this platform.
	page := dispensary.Paging{PageSize: 2}
	table["products.search"] = func(ctx context.Context, s *calltest.Fixture) (any, error) {
		return s.Client.Catalog.Products.Search(ctx, catalog.ProductSearchOptions{BrandID: s.Brand, Paging: page})
	}
	table["webhook_deliveries.list"] = func(ctx context.Context, s *calltest.Fixture) (any, error) {
		return s.Client.Events.Deliveries.List(ctx, events.DeliveryListOptions{Paging: page})
	}
	return table, s
}

// enliven lets events of every group happen, one of which is delivered, and gives
// the patient a metadata id.
func enliven(t *testing.T, s *calltest.Fixture) {
	t.Helper()
	p := s.Platform
	_, err := s.Client.Clinic.Patients.Update(t.Context(), s.Patient, clinic.PatientUpdate{Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-1"})})
	require.NoError(t, err)
	_, _, err = p.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	_, _, err = p.Plans.Create(s.Patient, model.NewPlan{})
	require.NoError(t, err)
	_, _, err = p.Products.Update(s.Product, model.ProductChange{Name: new("Newly Named")})
	require.NoError(t, err)
	_, err = p.Clinics.RevokeKey(s.Platform.ClinicKey())
	require.NoError(t, err)
	_, err = p.Clinics.ActivateKey(s.Platform.ClinicKey())
	require.NoError(t, err)
	require.NoError(t, s.Platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"challenge":%q}`, s.Platform.Application().ChallengeToken)
	})))
	_, event, err := p.Orders.Place(s.Patient, model.NewOrder{})
	require.NoError(t, err)
	require.NoError(t, s.Platform.Webhooks.WaitDelivered(t.Context(), event.ID))
}

// live is a transport that varies every answer of the platform.
type live struct {
	t    *testing.T
	base http.RoundTripper
	seed uint64
}

func (l live) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	m := newMutator(l.seed + uint64(len(r.URL.RawQuery)))
	var body bytes.Buffer
	m.write(&body, m.vary("", parse(l.t, answer), nil))
	response.Body, response.ContentLength = io.NopCloser(&body), int64(body.Len())
	response.Header.Del("Content-Length")
	return response, nil
}

// A walk over several pages, with and without prefetching, and a find-or-create do
// not notice either.
func TestCompatibleChangesDoNotDisturbLists(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t)
	base := platform.HTTPClient().Transport
	for seed := range uint64(10) {
		client := platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: live{t, base, seed}}))
		var names []string
		paging := dispensary.Paging{PageSize: 6, Prefetch: int(seed % 4)}
		for product, err := range client.Catalog.Products.All(t.Context(), catalog.ProductListOptions{Paging: paging}) {
			require.NoError(t, err, "seed %d", seed)
			names = append(names, product.Name)
		}
		var want []string
		for _, held := range platform.Products.All() {
			want = append(want, held.Name)
		}
		require.Equal(t, want, names, "seed %d", seed)

		patient, created, err := client.Clinic.Patients.Ensure(t.Context(), clinic.NewPatient{
			Email: "ensured@example.com", FirstName: "En", LastName: "Sured", Metadata: clinic.Metadata{ID: "ehr-9"},
		})
		require.NoError(t, err, "seed %d", seed)
		assert.Equal(t, seed == 0, created, "once is enough")
		assert.Equal(t, "En", patient.FirstName)
	}
}

// The mutator does what it says: the same seed makes the same body, and what it
// makes is JSON with the members of before.
func TestMutator(t *testing.T) {
	t.Parallel()
	body := `{"patient":{"id":"p-1","active":true,"discount":10,"date_of_birth":"1980-02-29","gender":null}}`
	forms := map[string]bool{}
	for seed := range uint64(200) {
		var first, second bytes.Buffer
		for _, b := range []*bytes.Buffer{&first, &second} {
			m := newMutator(seed)
			m.write(b, m.vary("", parse(t, []byte(body)), nil))
		}
		require.Equal(t, first.String(), second.String())
		var tree map[string]map[string]any
		data := strings.ReplaceAll(first.String(), "1e400", "1")
		require.NoError(t, json.Unmarshal([]byte(data), new(any)), data)
		_ = json.Unmarshal([]byte(data), &tree) // members that are new are of any kind
		require.Equal(t, "p-1", tree["patient"]["id"])
		forms[fmt.Sprintf("%T", tree["patient"]["active"])] = true
		forms[fmt.Sprintf("%T", tree["patient"]["discount"])] = true
	}
	assert.Len(t, forms, 3, "booleans, numbers and texts")
}
