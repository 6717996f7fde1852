// Quickstart walks through a whole integration, from a practitioner who connects
// to an order that comes back as a webhook, between two servers on this machine:
// the platform (a complete fake of it) and an electronic health record.
//
//	go run ./examples/quickstart
//
// Everything the health record does stands in ehr.go and is what a real one does.
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
