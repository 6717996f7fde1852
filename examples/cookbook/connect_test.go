package cookbook_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// A practitioner presses "Connect", authorizes on the platform's pages, and returns.
func Example_browserFlow() {
	mux := http.NewServeMux()
	ehr := httptest.NewServer(mux)
	defer ehr.Close()
	platform := start(dispensarytest.WithRedirectURI(ehr.URL + "/dispensary/callback"))
	defer platform.Close()
	users := newAccounts(platform)

	pages, err := users.Handler(connect.Config{
		StateKeys:       []dispensary.Secret{dispensary.NewSecret("32 random bytes, the same on every replica")},
		User:            func(*http.Request) (string, error) { return "dr-17", nil }, // from your session
		LoopbackCookies: true,                                                        // for development without TLS
	})
	must(err)
	mux.Handle("/dispensary/", pages)
	mux.HandleFunc("/settings", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "Your settings.") })

	// A browser follows the link of the button. The platform asks its user for consent.
	ctx := context.Background()
	response, err := platform.Browser(platform.Users()[0]).Authorize(ctx, ehr.URL+"/dispensary/connect?return_to=/settings")
	must(err)
	fmt.Println(response.Request.URL.Path, textOf(response))

	client, err := users.Client(ctx, "dr-17")
	must(err)
	practice, err := client.Clinic.Get(ctx)
	must(err)
	fmt.Println("dr-17 works at", practice.Name)
	// Output:
	// /settings Your settings.
	// dr-17 works at Maple Hollow Integrative Clinic
}

// The user revoked access on the platform: every call fails in one way.
func Example_revokedUser() {
	platform := start()
	defer platform.Close()
	ctx, users := context.Background(), newAccounts(platform)
	approve(ctx, users, platform, "dr-17")

	platform.Tokens.Revoke(platform.Users()[0]) // the user does this on the platform's pages

	client, err := users.Client(ctx, "dr-17")
	must(err)
	_, err = client.Clinic.Get(ctx)
	if errors.Is(err, dispensary.ErrReauthorize) {
		fmt.Println("show the button Connect, which leads to /dispensary/connect")
	}
	account, err := users.Status(ctx, "dr-17")
	must(err)
	fmt.Println(account.Status, account.Reason)

	approve(ctx, users, platform, "dr-17") // the user presses the button
	_, err = client.Clinic.Get(ctx)
	fmt.Println(err)
	// Output:
	// show the button Connect, which leads to /dispensary/connect
	// must_reauthorize invalid_grant
	// <nil>
}

// A page for administrators lists the users who must connect again, and has a button to disconnect.
func Example_listUsers() {
	platform := start()
	defer platform.Close()
	ctx, users := context.Background(), newAccounts(platform)
	approve(ctx, users, platform, "dr-17")
	platform.Tokens.Revoke(platform.Users()[0]) // the user does this on the platform's pages
	approve(ctx, users, platform, "dr-18")
	for _, user := range []string{"dr-17", "dr-18"} {
		client, err := users.Client(ctx, user)
		must(err)
		_, _ = client.Clinic.Get(ctx) // finds the revoked authorization
	}

	for account, err := range users.List(ctx, accounts.ListOptions{State: tokenstore.StateReauthorize}) {
		must(err)
		fmt.Println("write to", account.Key.User)
	}

	must(users.Disconnect(ctx, "dr-18"))
	account, err := users.Status(ctx, "dr-18")
	must(err)
	fmt.Println("dr-18 is", account.Status)
	// Output:
	// write to dr-17
	// dr-18 is not_connected
}

// A nightly job works for every connected user. A user who must connect again does not stop
// the work for the others.
func Example_everyUser() {
	platform := start()
	defer platform.Close()
	ctx, users := context.Background(), newAccounts(platform)
	approve(ctx, users, platform, "dr-17")
	platform.Tokens.Revoke(platform.Users()[0]) // the user does this on the platform's pages
	approve(ctx, users, platform, "dr-18")

	countPatients := func(user string) (n int, err error) {
		client, err := users.Client(ctx, user)
		if err != nil {
			return 0, err
		}
		for _, err := range client.Clinic.Patients.List().All(ctx) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	for account, err := range users.List(ctx, accounts.ListOptions{}) {
		must(err)
		switch n, err := countPatients(account.Key.User); {
		case errors.Is(err, dispensary.ErrReauthorize):
			fmt.Println(account.Key.User, "has to connect again")
		case err != nil:
			log.Print(err) // the next run tries again
		default:
			fmt.Println(account.Key.User, "has", n, "patients")
		}
	}
	// Output:
	// dr-17 has to connect again
	// dr-18 has 5 patients
}

// A job reads the orders of every clinic since its last run. A clinic that cannot be read does not
// stop the others, and the next run reads it from the same time.
func Example_newOrders() {
	platform := start()
	defer platform.Close()
	users, environment := newAccounts(platform), platform.Site().Environment
	ctx := api.ContextWithPriority(context.Background(), api.PriorityReconcile) // after calls that a person waits for
	approve(ctx, users, platform, "dr-17")

	lastRun := map[string]time.Time{}   // a table: the start of the last complete run of each clinic
	orders := map[string]clinic.Order{} // a table by the platform's ID, so that a repeated order changes nothing
	readClinic := func(id string) error {
		began, since := time.Now(), time.Now().AddDate(0, -1, 0)
		if last, ok := lastRun[id]; ok {
			since = last.Add(-time.Hour) // an order may be listed late
		}
		practice, err := users.ForClinic(ctx, environment, id, accounts.ClinicOptions{})
		if err != nil {
			return err
		}
		for order, err := range practice.Client.Clinic.Orders.List(clinic.OrderListOptions{CompletedSince: since}).All(ctx) {
			if err != nil {
				return err
			}
			orders[order.ID] = order
		}
		lastRun[id] = began
		return nil
	}
	run := func() {
		for after, more := "", true; more; {
			ids, err := users.Clinics(ctx, environment, after, 100)
			must(err)
			for _, id := range ids {
				if err := readClinic(id); err != nil {
					log.Print(err)
				}
				after = id
			}
			more = len(ids) == 100
		}
	}

	run()
	before := len(orders)
	_, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	must(err)
	run()
	fmt.Println(len(orders)-before, "new order")
	// Output: 1 new order
}

// Each country's platform has its own application. One token store serves both.
func Example_twoCountries() {
	us, canada := start(), start(dispensarytest.WithEnvironment(api.CanadaSandbox))
	defer us.Close()
	defer canada.Close()
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{application(us), application(canada)},
		Tokens:       tokens.Config{Store: tokenstore.NewMemoryStore()},
		Locate: func(_ context.Context, user string) (dispensary.Environment, error) {
			if strings.HasPrefix(user, "ca-") { // or from your own record of the user
				return canada.Site().Environment, nil
			}
			return us.Site().Environment, nil
		},
	})
	must(err)
	ctx := context.Background()
	approve(ctx, users, us, "us-17")
	approve(ctx, users, canada, "ca-4")

	for _, user := range []string{"us-17", "ca-4"} {
		client, err := users.Client(ctx, user)
		must(err)
		practice, err := client.Clinic.Get(ctx)
		must(err)
		fmt.Println(user, client.Site().Environment, practice.Name != "")
	}
	// Output:
	// us-17 us/sandbox true
	// ca-4 ca/sandbox true
}

// If the API documents the scope of a call and the scope was not granted, the call is not sent.
func Example_missingScope() {
	platform := start(dispensarytest.WithScopes("clinic:read", "patients:read"))
	defer platform.Close()
	ctx, users := context.Background(), newAccounts(platform)
	approve(ctx, users, platform, "dr-17")
	client, err := users.Client(ctx, "dr-17")
	must(err)

	_, err = client.TreatmentPlans.DynamicLinks.Create(ctx, treatmentplans.DynamicLinkCreate{
		PractitionerID: platform.Practitioners.All()[0].ID,
	})
	if missing, ok := errors.AsType[*api.ScopeError](err); ok {
		fmt.Println("add", missing.Scope, "to the application, and ask the user to connect again")
	}
	fmt.Println("sent:", len(platform.Journal.Requests("dynamic_links.create")))
	// Output:
	// add clinic:write to the application, and ask the user to connect again
	// sent: 0
}

// Save tokens of another program once. No user has to authorize again.
func Example_importTokens() {
	platform := start()
	defer platform.Close()
	old := platform.Tokens.Issue(platform.Users()[0]) // a row of your own table
	store := tokenstore.NewMemoryStore()              // in production a database
	ctx, environment := context.Background(), platform.Site().Environment

	_, err := store.Save(ctx, tokenstore.Key{Environment: environment, User: "dr-17"}, oauth.Token{
		AccessToken:  dispensary.NewSecret(old.AccessToken),
		RefreshToken: dispensary.NewSecret(old.RefreshToken),
		ExpiresAt:    time.Now().Add(-time.Hour), // or the real expiry: this token is refreshed first
		Environment:  environment,
	})
	must(err)

	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{application(platform)},
		Tokens:       tokens.Config{Store: store},
	})
	must(err)
	client, err := users.Client(ctx, "dr-17")
	must(err)
	practice, err := client.Clinic.Get(ctx)
	must(err)
	fmt.Println(practice.Name, "after", len(platform.Journal.Requests("oauth.token")), "refresh")
	// Output: Maple Hollow Integrative Clinic after 1 refresh
}
