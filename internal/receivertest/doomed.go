package receivertest

import (
	"context"
	"math/rand/v2"
	"os"

	"github.com/dispensary-go/dispensary/webhook"
)

// Doomed is an inbox whose process dies, once in so many times, between the accept
// and the answer, as if it were killed: nothing is cleaned up.
type Doomed struct {
	webhook.Inbox

	Once int
}

// Accept accepts, and may be the last thing that the process does.
func (d Doomed) Accept(ctx context.Context, delivery webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := d.Inbox.Accept(ctx, delivery)
	if rand.IntN(d.Once) == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return receipt, err
		}
		_ = self.Kill()
		select {}
	}
	return receipt, err
}
