package dispensary_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Call the API with the URLs and the token from environment variables.
func ExampleNewFromEnv() {
	client, err := dispensary.NewFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.Name)
}

// A script needs the URL of the API and a token. Here both come from a fake platform.
func ExampleWithAccessToken() {
	platform := fake()
	defer platform.Close()
	url, token := platform.Site().BaseURL, platform.Tokens.Issue(model.User{}).AccessToken

	client, err := dispensary.New(dispensary.USSandbox.At(url), dispensary.WithAccessToken(token))
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.Name)
	// Output: Maple Hollow Integrative Clinic
}

// Create one client per site and share it. Here the site is a fake platform in the same
// process. See [dispensary.Site] for real sites.
func ExampleNew() {
	platform := fake()
	defer platform.Close()

	client, err := dispensary.New(platform.Site(),
		dispensary.WithTokenSource(platform.TokenSource(model.User{})), // see package oauth
		dispensary.WithUserAgent("ExampleEHR/4.2"),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 3}),
		dispensary.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Site().Environment, practice.Name)
	// Output: us/sandbox Maple Hollow Integrative Clinic
}

// One client serves all users. Each user has a view with their own token.
func ExampleClient_With() {
	platform := fake()
	defer platform.Close()
	client, err := dispensary.New(platform.Site())
	if err != nil {
		log.Fatal(err)
	}

	product := platform.Products.All()[2].ID
	for _, user := range platform.Users()[:2] {
		view, err := client.With(dispensary.WithTokenSource(platform.TokenSource(user)))
		if err != nil {
			log.Fatal(err)
		}
		got, err := view.Catalog.Products.Get(context.Background(), product)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s prefers a dosage of their own: %t\n", user.Name, got.CustomDosage != nil)
	}
	// Output:
	// Amara Osei prefers a dosage of their own: true
	// Daniel Whitcombe prefers a dosage of their own: false
}

// An application that serves several clinics gives each view its clinic key. A clinic with
// several integrations has a key for each.
func ExampleWithClinicKey() {
	platform, err := dispensarytest.Start(dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	client := platform.Client(model.User{})

	seen := map[string]bool{}
	for _, key := range platform.ClinicKeys() {
		view, err := client.With(dispensary.WithClinicKey(dispensary.NewSecret(key)))
		if err != nil {
			log.Fatal(err)
		}
		practice, err := view.Clinic.Get(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		seen[practice.IntegrationID] = true
	}
	fmt.Println(len(seen), "integrations")
	// Output: 2 integrations
}

// Do reaches endpoints without a method, through the same pipeline.
func ExampleClient_Do() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	body, err := client.Do(context.Background(), dispensary.RawRequest{
		Method: http.MethodGet, Path: "/clinic/categories", Query: map[string][]string{"page[size]": {"1"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.15s…\n", body)
	// Output: {"categories":[…
}

// Quote the request ID if you report a problem to the platform.
func Example_captureResponse() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	var response api.Response
	_, err := client.Clinic.Patients.Get(context.Background(), "unknown", api.CaptureResponse(&response))
	fmt.Println(response.StatusCode, len(response.RequestID) > 0, response.Attempts, err != nil)
	// Output: 404 true 1 true
}

// One limiter keeps all clients of a program below the platform's rate limit. A call that
// would wait beyond its deadline fails at once and sends nothing.
func ExampleWithLimiter() {
	platform := fake()
	defer platform.Close()
	limiter, err := ratelimit.New(2, 5*time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	client := platform.Client(model.User{}, dispensary.WithLimiter(limiter))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		_, err := client.Clinic.Get(ctx)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// dispensary: clinic.get GET /clinic: the rate limit allows no request before the deadline: request was not sent
}

// Plain HTTP is accepted for loopback hosts only.
func ExampleSite() {
	site := dispensary.USSandbox.At("http://platform.example/api")
	fmt.Println(errors.Is(site.Validate(), api.ErrInsecure))
	// Output: true
}

// A secret prints as [redacted]. Reveal returns its text.
func ExampleSecret() {
	secret := dispensary.NewSecret("s3cr3t")
	fmt.Printf("%v %+v %s %q\n", secret, secret, secret, secret)
	fmt.Println(secret.Reveal())
	// Output:
	// [redacted] [redacted] [redacted] [redacted]
	// s3cr3t
}

// A list fetches its pages while you read it. PageSize is the number of items per request,
// Limit is the number of items in all, and Prefetch is the number of pages fetched at the same
// time.
func Example_list() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	products := client.Catalog.Products.List().PageSize(2).Limit(5).Prefetch(3)
	for product, err := range products.All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(product.Name)
	}
	// Output:
	// Acetyl-L-Carnitine 500
	// Adaptogen Balance
	// Ashwagandha Root
	// B-Complex Active
	// Berberine Plus
}

// Resume an interrupted run at the page where it stopped.
func Example_resume() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	patients, next := client.Clinic.Patients.List().PageSize(2), 0
	for page, err := range patients.Pages(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		next = page.Meta.NextPage // store it
		break
	}
	for patient, err := range patients.StartAt(next).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(patient.FirstName)
	}
	// Output:
	// Priya
	// Alex
	// Walter
}

// A logger receives every attempt, but never a URL, a body or a token.
func ExampleWithLogger() {
	platform := fake()
	defer platform.Close()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: stable})
	client := platform.Client(model.User{}, dispensary.WithLogger(slog.New(handler)))

	_, err := client.Clinic.Patients.Search(clinic.PatientSearchOptions{Query: "jane doe"}).Page(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	// Output: level=DEBUG msg="dispensary request" operation=patients.search method=GET route=/clinic/search/patients environment=us/sandbox attempt=1 status=200
}

// stable drops the attributes that differ between runs.
func stable(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "duration", "request_id":
		return slog.Attr{}
	}
	return a
}

// An observer can count anything, here the retries with their reasons. Package dispensaryotel,
// a separate module, creates spans and metrics from the same reports.
func ExampleWithObserver() {
	platform := fake()
	defer platform.Close()
	platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 503, Times: 1})
	client := platform.Client(model.User{}, dispensary.WithRetryPolicy(dispensary.RetryPolicy{MinWait: time.Millisecond}),
		dispensary.WithObserver(observe.Observer{
			AttemptEnd: func(_ context.Context, a observe.AttemptResult) {
				fmt.Printf("%s %d %s%s\n", a.Operation, a.Number, a.Retry, a.Failure)
			},
			CallEnd: func(_ context.Context, c observe.CallResult) {
				fmt.Println(c.Operation, "ended with", c.StatusCode, "after", c.Attempts, "attempts")
			},
		}))
	if _, err := client.Clinic.Get(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// clinic.get 1 status
	// clinic.get 2 server
	// clinic.get ended with 200 after 2 attempts
}

// Test the meaning of a failed call with errors.Is.
func ExampleError() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	_, err := client.Clinic.Patients.Get(context.Background(), "unknown")
	switch {
	case errors.Is(err, dispensary.ErrReauthorize):
		fmt.Println("send the user to the authorization page")
	case errors.Is(err, dispensary.ErrRateLimited), errors.Is(err, api.ErrServer):
		fmt.Println("try again later")
	case errors.Is(err, dispensary.ErrNotFound):
		fmt.Println("there is no such patient")
	}
	// Output: there is no such patient
}

// The fields and the text of an error are safe to log.
func ExampleError_fields() {
	platform := fake()
	defer platform.Close()
	reader := platform.Client(model.User{}, dispensary.WithTokenSource(platform.TokenSource(model.User{}, "catalog:read")))

	_, err := reader.Clinic.Patients.Create(context.Background(), clinic.PatientCreate{
		FirstName: "Ada", LastName: "Example", Email: "ada@example.com",
	})
	if failure, ok := errors.AsType[*dispensary.Error](err); ok {
		fmt.Println(failure.Operation, failure.Route, failure.StatusCode)
		fmt.Println("rejected:", errors.Is(err, dispensary.ErrNotApplied), "- repeatable:", errors.Is(err, dispensary.ErrNotSent))
	}
	// Output:
	// patients.create /clinic/patients 403
	// rejected: true - repeatable: false
}

// A call with invalid arguments sends nothing. The error names every invalid field.
func Example_argumentErrors() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	_, err := client.Clinic.Patients.Create(context.Background(), clinic.PatientCreate{FirstName: "Ada", LastName: " "})
	fmt.Println(err)
	fmt.Println(errors.Is(err, api.ErrArgument), len(platform.Journal.Requests()), "requests")
	// Output:
	// dispensary: patients.create: email can't be blank, last_name can't be blank
	// true 0 requests
}

// A form shows each message beside its field, whether this module or the platform found the
// mistake.
func ExampleProblemOf() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	save := func(form clinic.PatientCreate) {
		patient, err := client.Clinic.Patients.Create(context.Background(), form)
		if problem := dispensary.ProblemOf(err).For("email", "first_name", "last_name"); problem != nil {
			fmt.Println(problem.Status, problem.Title)
			fmt.Println("above the form:", problem.Other)
			fmt.Println("beside the e-mail:", problem.Fields["email"])
			return
		}
		fmt.Println("saved", patient.FirstName)
	}
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example"})
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "jane.doe@example.org", MobileNumber: "555-0155"})
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "ada@example.com", MobileNumber: "+15125550155"})
	// Output:
	// 422 The dispensary does not accept this. Please check your entries.
	// above the form: []
	// beside the e-mail: [Email can't be blank]
	// 422 The dispensary does not accept this. Please check your entries.
	// above the form: [Mobile number must be in international form, a + and digits]
	// beside the e-mail: [Email has already been taken]
	// saved Ada
}

// A JSON endpoint responds with the problem of an error, as RFC 9457 defines it.
func ExampleProblem() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	patient := func(w http.ResponseWriter, r *http.Request) {
		patient, err := client.Clinic.Patients.Get(r.Context(), r.FormValue("id"))
		if problem := dispensary.ProblemOf(err); problem != nil {
			slog.WarnContext(r.Context(), "patient", "error", err)
			w.Header().Set("Content-Type", "application/problem+json")
			if wait := problem.RetryAfter; wait > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			}
			w.WriteHeader(problem.Status)
			_ = json.NewEncoder(w).Encode(problem)
			return
		}
		_ = json.NewEncoder(w).Encode(patient)
	}
	response := httptest.NewRecorder()
	patient(response, httptest.NewRequest(http.MethodGet, "/patient?id=unknown", nil))
	fmt.Println(response.Code, response.Body)
	// Output: 404 {"status":404,"title":"The dispensary does not have this record."}
}
