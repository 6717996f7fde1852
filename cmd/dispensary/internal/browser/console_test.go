package browser

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A developer looks for the reason why a receiver gets no event, and repairs it.
func TestADeliveryFailsAndIsRetried(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		s.status.Store(http.StatusInternalServerError)
		b.visit(s.console + "world")
		b.press("Order as Jane Doe")
		b.sees("Done. A patient orders: order.placed.")
		s.attempted(1)
		b.press("Deliveries")
		b.sees("failing")
		assert.Equal(b.t, "failed due later later later later", b.slots())
		b.unfold("Attempt 1: status 500 is neither 200 nor 201")
		b.sees("SVC-Signature: t=", "Verify by hand", "openssl dgst -sha256 -hmac")

		now := s.fake.Clock().Now()
		s.status.Store(http.StatusOK)
		b.press("Retry now")
		b.sees("Done. Moves the clock forward", "delivered", "2026-03-02 09:01:00 UTC")
		assert.Equal(b.t, "failed done", b.slots())
		assert.Equal(b.t, now.Add(time.Minute), s.fake.Clock().Now())
		b.press("Clock")
		b.sees("Nothing is due.")
	})
}

// attempted waits until so many attempts of delivery were made.
func (s *fixture) attempted(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		made := 0
		for _, d := range s.fake.Webhooks.Deliveries() {
			made += len(d.Attempts)
		}
		return made >= n
	}, patience, 10*time.Millisecond)
}

// slots are the states of the latest delivery's attempts.
func (b *tab) slots() string {
	b.t.Helper()
	return eval[string](b, `[...document.querySelector(".slots").children].map((slot) => slot.classList[1]).join(" ")`)
}
