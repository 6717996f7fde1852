package webhook_test

import (
	"context"
	"log"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// A program without a scheduler reconciles in a goroutine: when it starts, every
// hour, and as soon as an alarm says that an outage is over. The alarm's Observe
// method is given to webhook.Config.
func ExampleReconciler_Every() {
	start := func(ctx context.Context, config webhook.ReconcilerConfig) (*webhook.Alarm, error) {
		reconciler, err := webhook.NewReconciler(config)
		if err != nil {
			return nil, err
		}
		go func() {
			if err := reconciler.Every(ctx, time.Hour); ctx.Err() == nil {
				log.Print(err)
			}
		}()
		return webhook.NewAlarm(webhook.AlarmConfig{Notify: reconciler.AfterOutage})
	}
	_ = start
}
