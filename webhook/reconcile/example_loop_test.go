package reconcile_test

import (
	"context"
	"log"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// A program without a scheduler reconciles in a goroutine: when it starts, every
// hour, and as soon as an alarm says that an outage is over. The alarm's Observe
// method is given to webhook.HandlerConfig.
func ExampleReconciler_Loop() {
	start := func(ctx context.Context, config reconcile.Config) (*webhook.Alarm, error) {
		reconciler, err := reconcile.New(config)
		if err != nil {
			return nil, err
		}
		go func() {
			if err := reconciler.Loop(ctx, time.Hour); ctx.Err() == nil {
				log.Print(err)
			}
		}()
		return webhook.NewAlarm(webhook.AlarmConfig{Notify: func(_ context.Context, o webhook.Outage) {
			log.Printf("webhooks have failed since %s, over: %t", o.Since, o.Over)
			reconciler.RunAfterOutage(o)
		}})
	}
	_ = start
}
