package probe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/probe"
)

// The sandbox of this example is a fake platform that was set up to rotate refresh tokens.
func Example() {
	sandbox, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithBehavior(dispensarytest.RefreshRotationGrace))
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Close()

	c := config(sandbox) // the application, a user's token, the clinic key
	c.Confirm = func(_ context.Context, plan probe.Plan) bool {
		for _, records := range plan.Creates {
			_ = records // show it and ask
		}
		return true
	}
	report, err := probe.Run(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range report.Findings {
		if finding.Point == "refresh-rotation" || finding.Point == "rate-limit" {
			fmt.Println(finding.Point, finding.Verdict, finding.Variant, finding.Why)
		}
	}
	// Output:
	// rate-limit not observable  it takes more than 5,000 requests in 5 minutes
	// refresh-rotation seen grace
}
