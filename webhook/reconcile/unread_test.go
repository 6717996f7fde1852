package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

// unreadable has the platform respond with a status to every read of some events.
func (s *fixture) unreadable(status int, bad ...webhook.Key) func(*config) {
	base := s.platform.HTTPClient().Transport
	through := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if slices.ContainsFunc(bad, func(k webhook.Key) bool { return k.EventID == path.Base(r.URL.Path) }) {
			header := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_1"}}
			return &http.Response{StatusCode: status, Request: r, Header: header, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}
		return base.RoundTrip(r)
	})}
	return func(c *config) { c.Events = s.client(dispensary.WithHTTPClient(through)).Events }
}

// Events that the platform lists and never returns do not block the others, wherever they are
// and however many they are.
func TestUnreadableEventsBlockNoOther(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 500} {
		for _, where := range [][2]int{{0, 3}, {2, 5}, {0, 11}, {3, 12}} {
			t.Run(fmt.Sprint(status, where), func(t *testing.T) {
				t.Parallel()
				s := newLossyFixture(t)
				keys := s.happen(t, 12)
				bad := keys[where[0]:where[1]]
				var recovered []webhook.Key
				for range 2 + 2*len(bad)/3 { // as many as fail three reads at a time, and each read twice
					report, _ := s.reconciler(t, s.unreadable(status, bad...)).Run(t.Context())
					recovered = append(recovered, report.Recovered...)
					s.clock.Advance(time.Minute)
				}
				assert.Len(t, recovered, len(keys)-len(bad))
				s.clock.Advance(20 * 24 * time.Hour)
				report := s.reconcile(t, s.unreadable(status, bad...))
				assert.Len(t, report.Gaps, 3, "a run without a success retries three")
				assert.Equal(t, len(bad), report.Retries)
				assert.ElementsMatch(t, bad, s.reconcile(t, nil).Recovered, "they are read once the platform returns them")
				assert.Zero(t, s.reconcile(t, nil).Retries)
				s.finish(t, keys...)
			})
		}
	}
}

// An unreadable event is retried for as long as the platform keeps it, costs a read per run, and
// is reported as lost then.
func TestUnreadableEventIsLostWithRetention(t *testing.T) {
	t.Parallel()
	for status, days := range map[int]int{404: 30, 403: 31, 500: 31} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			bad := s.happen(t, 1)
			unreadable := s.unreadable(status, bad...)
			_, _ = s.reconciler(t, unreadable).Run(t.Context())
			for day := 1; day <= 33; day++ {
				s.clock.Advance(24 * time.Hour)
				report := s.reconcile(t, unreadable)
				switch {
				case day <= days-1:
					require.Len(t, report.Gaps, 1, "day %d", day)
					assert.Equal(t, 1, report.Reads, "day %d", day)
					require.Error(t, report.Gaps[0].Err, "day %d", day)
				case day == days:
					require.Len(t, report.Gaps, 1, "day %d", day)
					require.NoError(t, report.Gaps[0].Err, "day %d", day)
					assert.Equal(t, bad[0].EventID, report.Gaps[0].EventID)
				default:
					assert.Empty(t, report.Gaps, "day %d", day)
				}
			}
		})
	}
}

// A webhook that arrives in the end ends the retries of its event.
func TestRetryEndsWithWebhook(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 3)
	_, err := s.reconciler(t, s.unreadable(500, keys[1])).Run(t.Context())
	require.ErrorIs(t, err, api.ErrServer)
	s.sendLate(t, keys[1].EventID)
	report := s.reconcile(t, s.unreadable(500, keys[1]))
	assert.Zero(t, report.Reads)
	assert.Empty(t, report.Gaps)
	s.finish(t, keys...)
}

// More events than the checkpoint has room for keep their group before them: none is lost, and
// the checkpoint stays small.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.orders(t, 300)
	bad := keys[1:299]
	var recovered []webhook.Key
	for range 3 {
		report, err := s.reconciler(t, s.unreadable(500, bad...)).Run(t.Context())
		require.ErrorIs(t, err, api.ErrServer)
		recovered = append(recovered, report.Recovered...)
	}
	assert.Equal(t, []webhook.Key{keys[0], keys[299]}, recovered)
	name := "us/sandbox/" + s.clinic
	state, err := s.inbox.ClaimCheckpoint(t.Context(), name, "test", time.Minute)
	require.NoError(t, err)
	assert.Less(t, len(state), 48<<10)
	assert.True(t, json.Valid(state))
	require.NoError(t, s.inbox.ReleaseCheckpoint(context.Background(), name, "test"))
	assert.ElementsMatch(t, bad, s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}
