package reconcile_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// refusing returns an inbox that answers some keys with an error, or a panic.
func (s *fixture) refusing(err error, keys ...webhook.Key) func(*reconcile.Config) {
	return func(c *reconcile.Config) {
		c.Inbox = hooked{s.inbox, func(method string, d webhook.Delivery) error {
			if method != "Accept" || !slices.Contains(keys, d.Key) {
				return nil
			}
			if errors.Is(err, errPanics) {
				panic("nil map")
			}
			return err
		}}
	}
}

var errPanics = errors.New("panics")

// An event that the inbox refuses for good keeps no other from being recovered,
// however many there are of it, and is not forgotten.
func TestReconcilerPassesOverWhatTheInboxRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err, matches error
		from, to     int
	}{
		"for a reason of its own": {errors.New("no"), webhook.ErrInbox, 1, 2},
		"two":                     {errors.New("no"), webhook.ErrInbox, 3, 5},
		"unstorable":              {webhook.ErrUnstorable, webhook.ErrUnstorable, 0, 6},
		"panic":                   {errPanics, webhook.ErrPanic, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			keys := s.orders(t, 9)
			bad := keys[c.from:c.to]
			for run := range 3 {
				report, err := s.fails(t, webhook.ErrInbox, s.refusing(c.err, bad...))
				require.ErrorIs(t, err, c.matches)
				if run == 0 {
					assert.Equal(t, slices.Delete(slices.Clone(keys), c.from, c.to), report.Recovered)
					require.Len(t, report.Gaps, len(bad))
				} else {
					assert.Empty(t, report.Recovered)
				}
				for n, gap := range report.Gaps {
					assert.Equal(t, bad[n].EventID, gap.EventID)
					assert.Equal(t, reconcile.Orders, gap.Group)
					assert.ErrorIs(t, gap.Err, c.matches)
				}
			}
			assert.Equal(t, bad, s.reconcile(t, nil).Recovered)
			s.finish(t, keys...)
		})
	}
}

// An inbox that is full or closed, or fails altogether, ends the run and makes no gaps;
// nothing is taken for recovered.
func TestReconcilerKnowsAnInboxThatIsDown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		reads int
	}{
		"fails":  {errors.New("no"), 5}, // it gives up
		"full":   {webhook.ErrInboxFull, 5},
		"closed": {webhook.ErrInboxClosed, 3}, // at once
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			keys := s.orders(t, 9)
			report, err := s.fails(t, webhook.ErrInbox, s.refusing(c.err, keys[2:]...))
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, keys[:2], report.Recovered)
			assert.Empty(t, report.Gaps)
			assert.Equal(t, c.reads, report.Reads)
			assert.Equal(t, keys[2:], s.reconcile(t, nil).Recovered)
			s.finish(t, keys...)
		})
	}
}

// What is refused for one integration is recovered for the other.
func TestReconcilerRefusesForOneIntegration(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t, dispensarytest.WithIntegrations(2))
	keys := s.orders(t, 1)
	require.Len(t, keys, 2)
	report, _ := s.fails(t, webhook.ErrUnstorable, s.refusing(webhook.ErrUnstorable, keys[0]))
	assert.Equal(t, keys[1:], report.Recovered)
	s.finish(t, keys[1:]...)
}

// A body that the handler would refuse is refused here, too.
func TestReconcilerBoundsBodies(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.orders(t, 3)
	report, err := s.reconciler(t, s.rewritten(func(r *http.Request, body map[string]any) {
		if event, ok := body["event"].(map[string]any); ok && event["id"] == keys[1].EventID {
			event["data"].(map[string]any)["note"] = strings.Repeat("x", webhook.DefaultMaxBody)
		}
	})).Run(t.Context())
	require.ErrorIs(t, err, webhook.ErrBodyTooLarge)
	assert.Equal(t, []webhook.Key{keys[0], keys[2]}, report.Recovered)
	require.Len(t, report.Gaps, 1)
	assert.Equal(t, keys[1].EventID, report.Gaps[0].EventID)
	require.ErrorIs(t, report.Gaps[0].Err, webhook.ErrBodyTooLarge)
	assert.Equal(t, keys[1:2], s.reconcile(t, nil).Recovered)

	_, err = reconcile.New(func() reconcile.Config {
		c := s.config()
		c.MaxBody = -1
		return c
	}())
	require.ErrorContains(t, err, "MaxBody is negative")
}
