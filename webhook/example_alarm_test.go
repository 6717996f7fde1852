package webhook_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// An alarm reports failing deliveries while there is still time to act: its Observe
// method is given to the handler's configuration. Here a day of failures is played on a
// fake clock.
func ExampleAlarm() {
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{
		After: []time.Duration{time.Hour, 12 * time.Hour},
		Now:   func() time.Time { return now },
		Notify: func(_ context.Context, outage webhook.Outage) {
			if outage.Over {
				fmt.Println("webhooks work again")
				return
			}
			fmt.Printf("%d failures in %s: %s\n", outage.Failures, outage.Age(), outage.Reason)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 14 {
		alarm.Observe(context.Background(), webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout})
		now = now.Add(time.Hour)
	}
	alarm.Observe(context.Background(), webhook.Observation{Outcome: webhook.OutcomeAccepted})
	// Output:
	// 3 failures in 2h0m0s: webhook: inbox took too long
	// 13 failures in 12h0m0s: webhook: inbox took too long
	// webhooks work again
}
