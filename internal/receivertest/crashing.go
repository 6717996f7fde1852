package receivertest

import (
	"context"
	"math/rand/v2"
	"os"

	"github.com/dispensary-go/dispensary/webhook"
)

// CrashingInbox is an inbox that kills its process once in a while, at random, between
// the accept and the answer: nothing is cleaned up.
type CrashingInbox struct {
	webhook.Inbox

	OneIn int // of so many accepts is the last one
}

// Accept accepts the delivery, and may then kill the process.
func (c CrashingInbox) Accept(ctx context.Context, delivery webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := c.Inbox.Accept(ctx, delivery)
	if rand.IntN(c.OneIn) == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return receipt, err
		}
		_ = self.Kill()
		select {}
	}
	return receipt, err
}
