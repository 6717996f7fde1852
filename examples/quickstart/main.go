// Quickstart runs a whole integration between two servers on this machine, a fake platform and an electronic
// health record (EHR). A practitioner connects, a patient orders, and the order arrives as a webhook.
//
//	go run ./examples/quickstart
//
// ehr.go contains the EHR.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}
