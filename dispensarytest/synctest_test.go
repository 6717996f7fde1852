package dispensarytest

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// slowly hosts a front of the platform that takes an hour to answer.
func slowly(t *testing.T, fake *Server) string {
	const front = "https://slow.example.com"
	require.NoError(t, fake.Host(front, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Hour):
			fake.Handler().ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})))
	return front
}

func TestClientTimesOutInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := New(t, WithInMemory())
		hasty := *fake.HTTPClient()
		hasty.Timeout = 30 * time.Second
		began := time.Now()
		_, err := hasty.Get(slowly(t, fake) + httpapi.BasePath + "/clinic")
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, 30*time.Second, time.Since(began))

		// Waiting for the hour is possible, too, and takes no time.
		resp, err := fake.HTTPClient().Get(slowly(t, fake) + httpapi.BasePath + "/clinic")
		require.NoError(t, err)
		decoded(t, resp).refused(401, "missing")
		assert.Equal(t, time.Hour+30*time.Second, time.Since(began))
	})
}

// The client of this module, at the platform itself: a body that never ends
// keeps the platform waiting.
func TestReadyClientTimesOutInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := New(t, WithInMemory())
		hasty := *fake.HTTPClient()
		hasty.Timeout = 30 * time.Second
		site := fake.Site()
		site.BaseURL = slowly(t, fake) + httpapi.BasePath
		client, err := dispensary.New(site, dispensary.WithHTTPClient(&hasty), dispensary.WithTokenSource(fake.TokenSource(model.User{})),
			dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1}))
		require.NoError(t, err)
		began := time.Now()
		_, err = client.Clinic.Get(t.Context())
		require.ErrorContains(t, err, "timed out")
		assert.Equal(t, 30*time.Second, time.Since(began))

		never, writer := io.Pipe()
		defer writer.Close()
		req, _ := http.NewRequest("POST", fake.BaseURL()+"/clinic/patients", never)
		req.Header.Set("Authorization", "Bearer "+fake.Tokens.Issue(model.User{}).AccessToken)
		_, err = hasty.Do(req)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// Every attempt of the schedule is made when it is due, on the bubble's own time,
// against a receiver without a socket that fails in a different way each time.
func TestWholeScheduleInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory(), WithBehavior(DeliveryConditionsOff))
		b.hosts(func(n int, w http.ResponseWriter, challenge string) {
			switch n {
			case 1:
				w.WriteHeader(http.StatusInternalServerError)
			case 2:
				time.Sleep(3 * time.Second) // longer than the platform waits
			case 3:
				acknowledge(w, "not the challenge")
			case 4:
				panic(http.ErrAbortHandler)
			case 5:
				w.WriteHeader(http.StatusAccepted)
			default:
				acknowledge(w, challenge)
			}
		})
		began := time.Now()
		_, event := b.place()
		require.NoError(t, b.wait(event), "waiting moves the bubble's time from attempt to attempt")

		delivery := b.fake.Webhooks.Deliveries()[0]
		var at []time.Duration
		var failures []string
		for _, a := range delivery.Attempts {
			at, failures = append(at, a.At.Sub(began)), append(failures, a.Err)
		}
		m, timeout := time.Minute, 2*time.Second // the next wait begins when the attempt has failed
		assert.Equal(t, []time.Duration{0, 1 * m, 6*m + timeout, 36*m + timeout, 96*m + timeout, 396*m + timeout}, at)
		for i, says := range []string{"status 500", "no answer within 2s", "challenge token", "reset", "status 202", ""} {
			assert.Contains(t, failures[i], says)
		}
		assert.Empty(t, failures[5])
		b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
		row := b.get("/webhooks/deliveries?successfully_delivered=true").ok(200, "webhook_deliveries").([]any)[0].(map[string]any)
		assert.EqualValues(t, 6, row["attempt_number"])
	})
}

// Close leaves nothing behind: the bubble would not end before a goroutine does,
// and a timer would still move its time.
func TestNothingOutlivesCloseInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, err := Start(WithInMemory(), WithBehavior(DeliveryConditionsOff))
		require.NoError(t, err)
		activate(t, fake)
		require.NoError(t, fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
		_, event, err := fake.Patients.Register(model.NewPatient{})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
		require.NoError(t, fake.Close())
		_, waiting := fake.Clock().Next()
		assert.False(t, waiting, "no retry is due any more")
		require.ErrorContains(t, fake.Webhooks.WaitDelivered(t.Context(), event.ID), "the platform was closed")
		time.Sleep(10 * time.Hour)
		assert.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
	})
}
