package probe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/probe"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

func TestRunRejectsProduction(t *testing.T) {
	t.Parallel()
	fake := start(t)
	c := config(fake)
	c.Application.Site.Environment = dispensary.USProduction
	_, err := probe.Run(t.Context(), c)
	require.ErrorIs(t, err, probe.ErrNotSandbox)
	assert.Empty(t, fake.Journal.Requests())
}

// stuck is a transport that never responds.
type stuck struct{}

func (stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func TestRunStopsWithoutResponse(t *testing.T) {
	t.Parallel()
	c := config(start(t))
	c.Application.Transport = stuck{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := probe.Run(ctx, c)
		require.Error(t, err)
		assert.Less(t, time.Since(began), 10*time.Minute)
	})
}

func TestRunAsksBeforeFirstRequest(t *testing.T) {
	t.Parallel()
	fake := start(t)
	c := config(fake)
	c.Spare = authorization(fake)
	var plan probe.Plan
	c.Confirm = func(p probe.Plan) bool { plan = p; return false }
	_, err := probe.Run(t.Context(), c)
	require.ErrorIs(t, err, probe.ErrDeclined)
	assert.Empty(t, fake.Journal.Requests())
	assert.Equal(t, "us/sandbox", plan.Environment)
	assert.Equal(t, probe.MaxRequests, plan.MaxRequests)
	assert.Len(t, plan.Creates, 2)
	assert.Len(t, plan.Ends, 2)
}

// A run leaves marked records as described and no usable plan. Existing records are unchanged.
func TestRunLeavesMarkedRecords(t *testing.T) {
	t.Parallel()
	fake := start(t, dispensarytest.WithBehavior(behavior.DraftCancellationAllowed))
	patients, plans := fake.Patients.All(), fake.Plans.All()
	report := sandbox{}.run(t, fake)
	assert.Equal(t, patients, fake.Patients.All()[:len(patients)])
	assert.Equal(t, plans, fake.Plans.All()[:len(plans)])
	var left []probe.Record
	for _, p := range fake.Patients.All()[len(patients):] {
		left = append(left, probe.Record{Kind: "patient", ID: p.ID})
		assert.Contains(t, p.LastName, "Dispensary-Probe "+report.Marker)
		assert.True(t, strings.HasSuffix(p.Email, "@example.com"))
		assert.False(t, p.Welcomed)
	}
	for _, p := range fake.Plans.All()[len(plans):] {
		left = append(left, probe.Record{Kind: "treatment_plan", ID: p.ID})
		assert.Equal(t, "cancelled", p.State)
	}
	assert.Len(t, left, 9)
	assert.ElementsMatch(t, left, report.Created)
	assert.Len(t, fake.Journal.Requests(), report.Requests)
}

// roundTrip is a transport between a run and the platform.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// between lets a test change the platform's responses.
func between(c *probe.Config, change func(r *http.Request, next http.RoundTripper) (*http.Response, error)) {
	next := c.Application.Transport
	c.Application.Transport = roundTrip(func(r *http.Request) (*http.Response, error) { return change(r, next) })
}

// responding returns a transport function with a fixed response for all requests to a path.
func responding(path string, status int, body string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, path) {
			return next.RoundTrip(r)
		}
		return &http.Response{
			StatusCode: status, Header: http.Header{"X-Request-Id": {"made-up"}, "Location": {"https://elsewhere.example/"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}

func TestRunIgnoresByteOrderMark(t *testing.T) {
	t.Parallel()
	fake := start(t)
	c := config(fake)
	between(&c, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			response.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader("\ufeff"), response.Body), response.Body}
		}
		return response, err
	})
	report, err := probe.Run(t.Context(), c)
	require.NoError(t, err)
	want, err := probe.Run(t.Context(), config(start(t)))
	require.NoError(t, err)
	assert.Len(t, report.Created, len(want.Created))
	assert.Equal(t, withoutIDs(want), withoutIDs(report))
}

// If the platform's behavior matches no variant, the finding is ambiguous and the run continues.
func TestRunCallsUnknownBehaviorAmbiguous(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, body string
		status     int
		ambiguous  map[string]string
	}{
		{"/catalog/products", `{"products":[{},{},{}],"meta":{"total_count":9}}`, 200, map[string]string{
			"default-page-size": "3 is not a known variant", "draft-update": "found no product",
		}},
		{"/clinic/patients", "<html>busy</html>", 502, map[string]string{
			"success-status": "status 502", "validation-status": "status 502", "draft-update": "could not create a patient: status 502",
			"unknown-parameters": "status 502", "unsorted-lists": "could not create a patient",
		}},
		{"/activate", "{}", 418, map[string]string{"wrong-state-status": "418 is not a known variant", "incomplete-plan": "status 418"}},
		{"/clinic", "", 302, map[string]string{"plain-http-status": "status 302", "integration-activation": "could not read"}},
		{"/oauth/token", `{"error":"invalid_client"}`, 401, map[string]string{"expires-in": "could not refresh the token: status 401", "refresh-rotation": "could not refresh the token"}},
	} {
		fake := start(t)
		config := config(fake)
		between(&config, responding(c.path, c.status, c.body))
		report, err := probe.Run(t.Context(), config)
		require.NoError(t, err)
		found := map[string]probe.Finding{}
		for _, f := range report.Findings {
			found[f.Point] = f
		}
		for point, why := range c.ambiguous {
			assert.Equal(t, probe.Ambiguous, found[point].Verdict, point)
			assert.Empty(t, found[point].Variant, point)
			assert.Contains(t, found[point].Why, why, point)
			assert.Contains(t, found[point].RequestIDs, "made-up", point)
		}
		assert.Equal(t, probe.Seen, found["array-filters"].Verdict)
	}
}

// The report contains the time until a lookup finds a new record, which can be longer than that
// of any variant.
func TestRunMeasuresMetadataLag(t *testing.T) {
	t.Parallel()
	for variant, want := range map[behavior.Variant]probe.Finding{
		"metadata-lag=none": {Verdict: probe.Seen, Variant: "none"},
		"metadata-lag=5s":   {Verdict: probe.Seen, Variant: "5s", Why: "the lookup found a new patient after 7s"},
		"metadata-lag=1m":   {Verdict: probe.Seen, Variant: "1m", Why: "the lookup found a new patient after 1m3s"},
		"":                  {Verdict: probe.Ambiguous, Why: "the lookup did not find a new patient within 1m3s"},
	} {
		fake := start(t)
		c := config(fake)
		if variant == "" {
			between(&c, responding("/clinic/metadata", 200, `{"metadata":[],"meta":{"total_count":0}}`))
		} else {
			require.NoError(t, fake.SetBehavior(variant))
		}
		report, err := probe.Run(t.Context(), c)
		require.NoError(t, err)
		at := slices.IndexFunc(report.Findings, func(f probe.Finding) bool { return f.Point == "metadata-lag" })
		require.GreaterOrEqual(t, at, 0)
		got := report.Findings[at]
		assert.NotEmpty(t, got.RequestIDs)
		want.Point, want.RequestIDs = got.Point, got.RequestIDs
		assert.Equal(t, want, got)
	}
}

// Ctrl-C ends the wait for a lookup.
func TestRunEndsDuringWait(t *testing.T) {
	t.Parallel()
	c := config(start(t, dispensarytest.WithBehavior(behavior.MetadataLag1m)))
	ctx, cancel := context.WithCancel(t.Context())
	c.Sleep = nil
	between(&c, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/clinic/metadata") {
			defer cancel()
		}
		return next.RoundTrip(r)
	})
	_, err := probe.Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
}

// A connection error stops the run, which returns its findings so far.
func TestFailedRunReturnsFindings(t *testing.T) {
	t.Parallel()
	fake := start(t)
	c := config(fake)
	sent := 0
	between(&c, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if sent++; sent > 20 {
			return nil, errors.New("the network failed")
		}
		return next.RoundTrip(r)
	})
	report, err := probe.Run(t.Context(), c)
	require.ErrorContains(t, err, "the network failed")
	assert.NotContains(t, err.Error(), "http")
	assert.Equal(t, 21, report.Requests)
	assert.Equal(t, 21, sent, "no request after a failure")
	assert.Len(t, report.Findings, len(behavior.Choices()))
	assert.NotEmpty(t, report.Behaviors())
	assert.NotEmpty(t, report.Created)
	for _, f := range report.Findings {
		if f.Point == "refresh-rotation" {
			assert.Equal(t, "an earlier request got no response", f.Why)
		}
	}
}

// A plain HTTP request has no token, and a report contains no secret.
func TestRunLeaksNoSecret(t *testing.T) {
	t.Parallel()
	fake := start(t)
	c := config(fake)
	between(&c, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.URL.Scheme == "http" {
			assert.Empty(t, r.Header.Get("Authorization"))
			assert.Empty(t, r.Header.Get("X-SVC-Clinic-Key"))
		}
		return next.RoundTrip(r)
	})
	report, err := probe.Run(t.Context(), c)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, json.NewEncoder(&text).Encode(report))
	for _, secret := range []dispensary.Secret{c.Token.AccessToken, c.Token.RefreshToken, c.Application.ClientSecret, c.ClinicKey} {
		assert.NotContains(t, text.String(), secret.Reveal())
	}
	assert.Contains(t, text.String(), "refresh-rotation")
	assert.Contains(t, text.String(), report.Created[0].ID)
}
