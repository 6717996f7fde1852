package probe_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/probe"
)

// The sandbox of this example is a fake platform that rotates refresh tokens.
func ExampleRun() {
	ctx := context.Background()
	sandbox, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithBehavior(dispensarytest.RefreshRotationGrace))
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Close()
	app, user := sandbox.Application(), sandbox.Tokens.Issue(model.User{})

	report, err := probe.Run(ctx, probe.Config{
		Application: oauth.Config{
			Site: sandbox.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI, HTTPClient: sandbox.HTTPClient(),
		},
		Token: oauth.Token{ // of oauth.Client.Exchange, or from your store
			AccessToken: dispensary.NewSecret(user.AccessToken), RefreshToken: dispensary.NewSecret(user.RefreshToken),
			Environment: sandbox.Site().Environment,
		},
		ClinicKey: dispensary.NewSecret(sandbox.ClinicKey()),
		Confirm: func(_ context.Context, plan probe.Plan) bool {
			fmt.Println("on", plan.Environment) // show plan.Creates and plan.Ends, and ask
			return true
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range report.Findings {
		if finding.Point == "refresh-rotation" || finding.Point == "rate-limit" {
			fmt.Println(finding.Point+":", finding.Verdict, "-", finding.Variant+finding.Why)
		}
	}

	name := filepath.Join(os.TempDir(), "behaviors-"+report.Marker+".json")
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(name)
	defer file.Close()
	if err := report.WriteBehaviors(file); err != nil {
		log.Fatal(err)
	}

	// In tests, with the file beside them.
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithBehaviorsFile(name))
	if err != nil {
		log.Fatal(err)
	}
	defer fake.Close()
	for _, behavior := range fake.Behaviors() {
		if behavior.Choice() == "refresh-rotation" {
			fmt.Println("the fake has", behavior)
		}
	}
	// Output:
	// on us/sandbox
	// rate-limit: not observable - it takes more than 5,000 requests in 5 minutes
	// refresh-rotation: seen - grace
	// the fake has refresh-rotation=grace
}
