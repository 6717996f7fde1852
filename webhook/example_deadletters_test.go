package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// Events that a handler could not handle are kept: look at them, put right what
// stood in their way, and replay them.
func Example_deadLetters() {
	repaired := false
	died := make(chan webhook.Key, 1)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
		Retry: webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond},
		Handle: func(_ context.Context, event events.Event) error {
			if !repaired {
				return errors.New("no such clinic")
			}
			fmt.Println("handled", event.ID)
			return nil
		},
		Observer: webhook.Observer{AttemptEnd: func(_ context.Context, attempt webhook.Attempt) {
			if attempt.Result == webhook.ResultDead {
				died <- attempt.Key
			}
		}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = inbox.Accept(context.Background(), webhook.Delivery{
		Key:  webhook.Key{Environment: api.Environment{Region: api.US, Stage: api.Sandbox}, EventID: "evt_1"},
		Type: events.ClinicKeyActivated,
		Body: []byte(`{"event":{"id":"evt_1","type":"clinic_key.activated"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}

	key := <-died
	dead := engine.Filter{States: []engine.State{engine.StateDead}}
	for letter, err := range engine.All(context.Background(), inbox, dead) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(letter, "after", letter.Attempts, "attempts:", letter.Reason)
	}
	letter, err := inbox.Open(context.Background(), key) // with its body
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(letter.Err)

	repaired = true
	counts, err := inbox.Count(context.Background(), dead, 1000) // the first thousand at most
	if err != nil {
		log.Fatal(err)
	}
	dead.Until = counts.Until // and not what dies from now on
	if _, err := inbox.Replay(context.Background(), dead); err != nil {
		log.Fatal(err)
	}
	if err := inbox.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// clinic_key.activated us/sandbox/evt_1/ after 2 attempts: error of type *errors.errorString
	// no such clinic
	// handled evt_1
}
