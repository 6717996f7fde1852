package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/oauth"
)

// This integration has the client secret of another environment. Doctor reports the fault and a
// fix.
func ExampleRun() {
	platform, err := dispensarytest.Start(dispensarytest.WithTLS())
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	app := platform.Application()

	report, err := doctor.Run(context.Background(), doctor.Config{
		OAuth: oauth.Config{
			Site: platform.Site(), Transport: platform.HTTPClient().Transport,
			ClientID: app.ClientID, ClientSecret: api.NewSecret("another-environments-secret"), RedirectURL: app.RedirectURI,
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range report.Rows {
		if row.Status == doctor.StatusFail {
			fmt.Printf("%s: %s\n  %s\n  %s\n", row.Check, row.Seen, row.Consequence, row.Fix)
		}
	}
	// Output:
	// client credentials: rejected by the token endpoint of us/sandbox
	//   no token can be fetched or refreshed, so all calls fail within two hours
	//   copy the client ID and secret from the developer dashboard of this environment; each region and stage has its own
}
