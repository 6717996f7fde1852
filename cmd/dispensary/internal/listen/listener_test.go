package listen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// The first event and each later one is forwarded within the interval plus 100 ms, at any time.
func TestEventsAreForwardedWithinInterval(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		happened := map[string]time.Time{}
		f.start(t, nil, func() {
			for i := range 50 {
				time.Sleep(time.Duration(i) * 777 * time.Millisecond)
				at := time.Now()
				happened[f.edit(t, i%3, 1)[0]] = at
			}
			time.Sleep(listen.DefaultInterval)
		})
		require.Len(t, f.accepted, 50)
		for i, a := range f.accepted {
			waited := a.at.Sub(happened[a.key.EventID])
			assert.LessOrEqual(t, waited, listen.DefaultInterval+100*time.Millisecond, "event %d", i)
		}
		assert.Equal(t, f.accepted[0].key.IntegrationID, f.integrations[0])
	})
}

// An inbox that receives an event by webhook and by the listener handles it once.
func TestWebhookAndForwardedEventShareKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		require.NoError(t, f.platform.Webhooks.Register(address+"/webhooks"))
		f.start(t, nil, func() {
			f.edit(t, 0, 2)
			_, _, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
			require.NoError(t, err)
			_, _, err = f.platform.Products.Describe(f.platform.Products.All()[0].ID, "<p>Towel</p>")
			require.NoError(t, err)
			time.Sleep(time.Minute)
		})
		assert.Len(t, f.eventIDs(), 4)
		assert.GreaterOrEqual(t, f.count(), 8, "the others were duplicates")
	}, dispensarytest.WithBehavior(behavior.IntegrationActivationFromTheStart))
}

// The platform truncates the time of an event.
func TestEventRightAfterStartIsForwarded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		time.Sleep(900 * time.Microsecond)
		var ids []string
		f.start(t, nil, func() {
			ids = f.edit(t, 0, 1)
			time.Sleep(time.Minute)
		})
		assert.Equal(t, ids, f.eventIDs())
	})
}

// Events while the listener is stopped are forwarded once after its restart.
func TestRestartedListenerForwardsMissedEvents(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.edit(t, 0, 3) // before the first start of the listener
		var want []string
		objects := make([][]string, 2) // events of two patients are forwarded concurrently
		for range 3 {
			f.listenFor(t, time.Minute, nil)
			for i := range objects {
				ids := f.edit(t, i, 2)
				objects[i], want = append(objects[i], ids...), append(want, ids...)
			}
			time.Sleep(26 * time.Hour)
		}
		f.listenFor(t, time.Minute, nil)
		assert.Len(t, f.eventIDs(), len(want))
		for _, ids := range objects {
			assert.Equal(t, ids, slices.DeleteFunc(f.eventIDs(), func(id string) bool { return !slices.Contains(ids, id) }))
		}
		assert.Len(t, f.requests, len(want))
		info, err := os.Stat(f.cursor)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		content, err := os.ReadFile(f.cursor)
		require.NoError(t, err)
		assert.NotContains(t, string(content), want[0], "the cursor does not grow")
	})
}

// A listener that was killed repeats the last events and loses none.
func TestKilledListenerRepeatsEvents(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		var want []string
		var cursor []byte
		f.start(t, nil, func() {
			for i := range 20 {
				want = append(want, f.edit(t, i%3, 1)...)
				if i == 9 {
					var err error
					cursor, err = os.ReadFile(f.cursor)
					require.NoError(t, err)
				}
			}
			time.Sleep(listen.DefaultInterval)
		})
		require.Equal(t, want, f.eventIDs())
		requests := f.count()
		require.NoError(t, os.WriteFile(f.cursor, cursor, 0o600)) // the cursor of the time of the kill
		want = append(want, f.edit(t, 0, 1)...)
		f.listenFor(t, time.Minute, nil)
		assert.Equal(t, want, f.eventIDs())
		assert.InDelta(t, requests+10, f.count(), 6, "the last events are repeated")
	})
}

// A listener that is killed during a request loses no event. One event was rejected for longer
// than the overlap.
func TestListenerKilledDuringRequestLosesNoEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		var want []string
		f.setReject(func(webhook.Delivery) bool { return true })
		f.start(t, nil, func() { want = f.edit(t, 2, 1) })
		rejected := want[0]
		for round := range 5 {
			kill := time.Now().Add(time.Duration(2+round) * 30 * time.Second)
			var cursor []byte // at the time of the kill
			f.setReject(func(d webhook.Delivery) bool {
				if cursor == nil && d.Key.EventID != rejected && time.Now().After(kill) {
					cursor, _ = os.ReadFile(f.cursor)
				}
				return cursor != nil || d.Key.EventID == rejected
			})
			f.start(t, nil, func() {
				for i := range 10 {
					want = append(want, f.edit(t, i%2, 1)...)
					time.Sleep(20 * time.Second)
				}
			})
			require.NotNil(t, cursor)
			require.NoError(t, os.WriteFile(f.cursor, cursor, 0o600))
		}
		f.setReject(nil)
		f.listenFor(t, 5*time.Minute, nil)
		assert.ElementsMatch(t, want, f.eventIDs())
	})
}

// A save replaces the file, so a kill during it leaves the previous file.
func TestSaveReplacesCursor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.listenFor(t, time.Minute, nil)
		before, err := os.ReadFile(f.cursor)
		require.NoError(t, err)
		require.NoError(t, os.Link(f.cursor, f.cursor+".before"))
		f.start(t, nil, func() {
			f.edit(t, 0, 1)
			time.Sleep(time.Minute)
		})
		kept, err := os.ReadFile(f.cursor + ".before")
		require.NoError(t, err)
		assert.Equal(t, string(before), string(kept))
		now, err := os.ReadFile(f.cursor)
		require.NoError(t, err)
		assert.NotEqual(t, string(before), string(now))
	})
}

func TestSinceSetsStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.edit(t, 0, 1)
		time.Sleep(3 * time.Hour)
		want := f.edit(t, 0, 2)
		time.Sleep(time.Hour)
		since := func(c *listen.Config) { c.Since = 2 * time.Hour }
		f.listenFor(t, time.Second, since)
		assert.Equal(t, want, f.eventIDs())
		f.listenFor(t, time.Minute, func(c *listen.Config) { c.Since = 5 * time.Hour })
		assert.Equal(t, want, f.eventIDs(), "the cursor takes precedence")
	})
}

func TestTypesSelectEvents(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		happen := func() (ids []string) {
			f.edit(t, 0, 1)
			_, placed, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
			require.NoError(t, err)
			time.Sleep(time.Second)
			_, registered, err := f.platform.Patients.Create(model.PatientCreate{})
			require.NoError(t, err)
			return []string{placed.ID, registered.ID}
		}
		var want []string
		f.start(t, func(c *listen.Config) { c.Types = []events.Type{events.TypeOrderPlaced, events.TypePatientCreated} }, func() {
			want = happen()
			time.Sleep(time.Minute)
		})
		assert.Equal(t, want, f.eventIDs())
		for _, p := range f.polls {
			assert.Equal(t, 2, p.Pages, "lists of other types are not read")
		}
	})
}

// rewriting is a transport that lets a test change the list of patient events.
type rewriting struct {
	next   http.RoundTripper
	change atomic.Pointer[func(list []map[string]any) []map[string]any]
}

func (w *rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	change := w.change.Load()
	if err != nil || change == nil || !strings.HasSuffix(r.URL.Path, "/events/patients") {
		return resp, err
	}
	var list struct {
		Events []map[string]any `json:"events"`
		Meta   map[string]any   `json:"meta"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	list.Events = (*change)(list.Events)
	body, err := json.Marshal(list)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, err
}

// rewrites returns a transport and its client.
func (f *fixture) rewrites() (*rewriting, *dispensary.Client) {
	network := &rewriting{next: f.platform.HTTPClient().Transport}
	return network, f.platform.Client(model.User{}, dispensary.WithTransport(network))
}

// New events in every poll do not delay a late event in the list.
func TestSteadyEventsDelayNoLateEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		network, client := f.rewrites()
		f.start(t, func(c *listen.Config) { c.Sources[0].Events = client.Events }, func() {
			time.Sleep(time.Second)
			late, until := f.edit(t, 0, 1)[0], time.Now().Add(20*time.Second)
			network.change.Store(new(func(list []map[string]any) []map[string]any {
				return slices.DeleteFunc(list, func(e map[string]any) bool { return e["id"] == late && time.Now().Before(until) })
			}))
			for range 850 {
				_, _, err := f.platform.Patients.Update(f.platform.Patients.All()[1].ID, model.PatientUpdate{FirstName: new("Marvin")})
				require.NoError(t, err)
				time.Sleep(100 * time.Millisecond)
			}
			assert.True(t, slices.Contains(f.eventIDs(), late), "the late event is forwarded")
		})
	})
}

// A late event in the list is forwarded within a minute, despite many later events and a
// restart. Most polls read one page of each list.
func TestLateEventIsForwarded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		network, client := f.rewrites()
		var late string
		var until time.Time
		lately := func(c *listen.Config) { c.Sources[0].Events = client.Events }
		f.start(t, lately, func() {
			time.Sleep(time.Second)
			late, until = f.edit(t, 0, 1)[0], time.Now().Add(4*time.Minute)
			network.change.Store(new(func(list []map[string]any) []map[string]any {
				return slices.DeleteFunc(list, func(e map[string]any) bool { return e["id"] == late && time.Now().Before(until) })
			}))
			for range 200 {
				_, _, err := f.platform.Patients.Update(f.platform.Patients.All()[1].ID, model.PatientUpdate{FirstName: new("Marvin")})
				require.NoError(t, err)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
		})
		assert.NotContains(t, f.eventIDs(), late)
		f.start(t, lately, func() { time.Sleep(time.Until(until.Add(time.Minute + listen.DefaultInterval))) })
		assert.Len(t, f.eventIDs(), 201)
		assert.Contains(t, f.eventIDs(), late)
		more, incomplete := 0, 0
		for _, p := range f.polls {
			if ended := (*api.IncompleteListError)(nil); errors.As(p.Err, &ended) {
				incomplete++
			}
			if p.Pages > 5 {
				more++
			}
		}
		assert.LessOrEqual(t, more, 8)
		assert.NotZero(t, incomplete, "the list has one event less than its count")
	})
}

// An event with a future date hides no later event, even if the machine's clock is fast.
func TestFutureDateHidesNoEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		network, client := f.rewrites()
		var want []string
		f.start(t, func(c *listen.Config) {
			c.Sources[0].Events = client.Events
			c.Since = 30 * 24 * time.Hour
			c.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
		}, func() {
			time.Sleep(time.Second)
			want = f.edit(t, 0, 1)
			id := want[0]
			network.change.Store(new(func(list []map[string]any) []map[string]any {
				for i, e := range list {
					if e["id"] == id { // first, as the platform would list it
						e["created_at"] = "2099-01-01T00:00:00Z"
						return append([]map[string]any{e}, slices.Delete(list, i, i+1)...)
					}
				}
				return list
			}))
			time.Sleep(time.Minute)
			want = append(want, f.edit(t, 1, 3)...)
			time.Sleep(time.Minute)
		})
		assert.ElementsMatch(t, want, f.eventIDs())
	})
}

// The clinics are separate: a rejected token of one does not stop the others.
func TestRejectedClinicBlocksNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		var sources []listen.Source
		var patients, keys []string
		for _, clinic := range f.platform.Clinics.All()[:2] {
			for _, u := range f.platform.Users() {
				if u.ClinicID != clinic.ID {
					continue
				}
				integration := f.integrationOf(t, u)
				sources = append(sources, listen.Source{
					Name: clinic.ID, Environment: f.platform.Site().Environment,
					Events: f.platform.Client(u).Events, Integrations: []string{integration},
				})
				registered, _, err := f.platform.Patients.Create(model.PatientCreate{ClinicID: clinic.ID})
				require.NoError(t, err)
				patients = append(patients, registered.ID)
				keys = append(keys, integration)
				break
			}
		}
		require.Len(t, sources, 2)
		revoked := f.platform.Client(model.User{}, dispensary.WithTokenSource(ended{f})).Events
		sources = append(sources, listen.Source{Name: "revoked", Environment: f.platform.Site().Environment, Events: revoked})
		time.Sleep(time.Second)
		var want []webhook.Key
		f.start(t, func(c *listen.Config) { c.Sources = sources }, func() {
			for i, id := range patients {
				_, e, err := f.platform.Patients.Update(id, model.PatientUpdate{FirstName: new("Ford")})
				require.NoError(t, err)
				want = append(want, webhook.Key{Environment: f.platform.Site().Environment, EventID: e.ID, IntegrationID: keys[i]})
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
		})
		var got []webhook.Key
		for _, a := range f.accepted {
			got = append(got, a.key)
		}
		assert.Equal(t, want, got)
		assert.True(t, slices.ContainsFunc(f.polls, func(p listen.Poll) bool { return p.Source == "revoked" && p.Err != nil }))
	}, dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
}

// ended is an unknown token.
type ended struct{ f *fixture }

func (e ended) Token(context.Context) (api.AccessToken, error) {
	return api.AccessToken{Secret: dispensary.NewSecret("unknown"), Environment: e.f.platform.Site().Environment}, nil
}

func TestRejectedTokensStopListener(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		c := f.config(t)
		c.Sources[0].Events = f.platform.Client(model.User{}, dispensary.WithTokenSource(ended{f})).Events
		listener, err := listen.New(c)
		require.NoError(t, err)
		require.ErrorIs(t, listener.Run(t.Context()), api.ErrUnauthorized)
	})
}

// Each integration of a clinic gets every event. The listener loads the event once.
func TestIntegrationsShareOneRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.integrations = append(f.integrations, "in_2")
		f.platform.Journal.Reset()
		f.start(t, nil, func() {
			f.edit(t, 0, 3)
			time.Sleep(time.Minute)
		})
		assert.Len(t, f.accepted, 6)
		reads := 0
		for _, r := range f.platform.Journal.Requests() {
			if r.Operation == "events.get" {
				reads++
			}
		}
		assert.Equal(t, 3, reads)
	})
}

// A rejected event blocks the later events of its object and no others.
func TestFailingEventBlocksItsObject(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		var first, other []string
		f.setReject(func(webhook.Delivery) bool { return true })
		f.start(t, nil, func() {
			first = f.edit(t, 0, 1)
			id := first[0]
			f.setReject(func(d webhook.Delivery) bool { return d.Key.EventID == id })
			time.Sleep(20 * time.Second)
			for range 5 {
				first = append(first, f.edit(t, 0, 1)...)
				other = append(other, f.edit(t, 1, 1)...)
			}
			time.Sleep(5 * time.Minute)
			assert.Equal(t, other, f.eventIDs())
			f.setReject(nil)
			time.Sleep(time.Minute)
		})
		assert.Equal(t, append(slices.Clone(other), first...), f.eventIDs())
		assert.Less(t, len(f.requests), 30, "the backoff grows")
		assert.ErrorIs(t, f.responses[0].Err, listen.ErrNotAcknowledged)
		assert.Equal(t, http.StatusServiceUnavailable, f.responses[0].Status)
	})
}

// unreachable is a transport that fails to connect while down is set.
type unreachable struct {
	down  atomic.Bool
	tried atomic.Int64
	next  http.RoundTripper
}

func (u *unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	u.tried.Add(1)
	if u.down.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return u.next.RoundTrip(r)
}

// While the receiver is unreachable, only one event is retried, with growing backoff. Then all
// events arrive in order.
func TestUnreachableReceiverPausesForwarding(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		network := &unreachable{next: f.platform.HTTPClient().Transport}
		network.down.Store(true)
		forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
			URL: address, Secret: dispensary.NewSecret(secret), Challenge: dispensary.NewSecret(challenge), HTTPClient: &http.Client{Transport: network},
		})
		require.NoError(t, err)
		var want []string
		f.start(t, func(c *listen.Config) { c.Forwarder = forwarder }, func() {
			for i := range 10 {
				want = append(want, f.edit(t, i%4, 1)...)
			}
			time.Sleep(30 * time.Minute)
			assert.Empty(t, f.eventIDs())
			assert.Less(t, network.tried.Load(), int64(80))
			network.down.Store(false)
			time.Sleep(time.Minute + listen.DefaultInterval)
		})
		assert.Equal(t, want, f.eventIDs())
		assert.NotContains(t, f.responses[0].Err.Error(), address)
	})
}

// If the receiver fails for all events, the listener does not try each of them.
func TestFailingReceiverGetsFewRequests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.edit(t, 0, 200)
		for i := range 200 {
			f.edit(t, i%5, 1)
		}
		f.setReject(func(webhook.Delivery) bool { return true })
		f.start(t, func(c *listen.Config) { c.Since = time.Hour }, func() {
			time.Sleep(10 * time.Minute)
			assert.Less(t, f.count(), 100)
			f.setReject(nil)
			time.Sleep(3 * time.Minute)
		})
		assert.Len(t, f.accepted, 400)
	})
}

// The platform fails in several ways. No event is lost.
func TestFailingPlatformLosesNoEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		faults := []model.Fault{
			{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.get", Times: 2},
			{Effect: model.EffectErrorStatus, Status: 503, Operation: "events.list_patients", Times: 4},
			{Effect: model.EffectErrorStatus, Status: 404, Operation: "events.get", Times: 1},
			{Effect: model.EffectDropBeforeCommit, Operation: "events.get", Times: 3},
			{Effect: model.EffectTruncatedBody, Bytes: 10, Operation: "events.list_patients", Times: 3},
			{Effect: model.EffectTooManyRequests, Times: 8},
		}
		var want []string
		f.start(t, nil, func() {
			for i := range 12 {
				f.platform.Fault(faults[i%len(faults)])
				want = append(want, f.edit(t, i%2, 3)...)
				time.Sleep(time.Minute)
			}
			time.Sleep(5 * time.Minute)
		})
		assert.ElementsMatch(t, want, f.eventIDs())
	})
}

// An event that the platform no longer has is dropped and reported after 30 days.
func TestEventsBeyondRetentionAreDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.setReject(func(webhook.Delivery) bool { return true })
		f.start(t, nil, func() {
			f.edit(t, 0, 1)
			f.edit(t, 1, 1)
			time.Sleep(time.Minute)
		})
		time.Sleep(30*24*time.Hour - 10*time.Minute)
		f.listenFor(t, 20*time.Minute, nil)
		last := f.responses[len(f.responses)-1]
		assert.True(t, last.Dropped)
		require.ErrorIs(t, last.Err, dispensary.ErrNotFound)
		assert.False(t, f.polls[len(f.polls)-1].Gap)

		f.polls = nil
		time.Sleep(31 * 24 * time.Hour)
		f.listenFor(t, time.Minute, nil)
		assert.True(t, f.polls[0].Gap)
		assert.False(t, f.polls[1].Gap)
	}, dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: 10}))
}

// On shutdown, the listener waits briefly for the response to a started request.
func TestShutdownWaitsForStartedRequest(t *testing.T) {
	t.Parallel()
	for takes, again := range map[time.Duration]int{time.Second: 0, time.Minute: 1} {
		inBubble(t, func(t *testing.T, f *fixture) {
			forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
				URL: address, Secret: dispensary.NewSecret(secret), Challenge: dispensary.NewSecret(challenge),
				HTTPClient: &http.Client{Transport: &response{status: 200, body: `{"challenge":"` + challenge + `"}`, after: takes}},
			})
			require.NoError(t, err)
			began := time.Now()
			f.start(t, func(c *listen.Config) { c.Forwarder = forwarder }, func() {
				time.Sleep(time.Second) // after the first poll
				f.edit(t, 0, 1)
				time.Sleep(listen.DefaultInterval - 2*time.Second + time.Millisecond)
			})
			assert.LessOrEqual(t, time.Since(began), listen.DefaultInterval+3*time.Second)
			assert.Len(t, f.responses, 1-again)
			f.listenFor(t, time.Minute, nil)
			assert.Len(t, f.accepted, again)
		})
	}
}

func TestSecondListenerIsRejected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.start(t, nil, func() {
			time.Sleep(time.Second)
			second, err := listen.New(f.config(t))
			require.NoError(t, err)
			require.ErrorIs(t, second.Run(t.Context()), listen.ErrInUse)
		})
	})
}

func TestRemovedLockFileStopsListener(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove a locked file")
	}
	inBubble(t, func(t *testing.T, f *fixture) {
		listener, err := listen.New(f.config(t))
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- listener.Run(t.Context()) }()
		time.Sleep(time.Second)
		require.NoError(t, os.Remove(f.cursor+".lock"))
		require.ErrorIs(t, <-ended, listen.ErrInUse)
	})
}

func TestForeignCursorFileIsKept(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"not JSON": "towel", "empty": "", "other program": `{"version":1}`, "later version": `{"version":2,"sources":{}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *fixture) {
				require.NoError(t, os.WriteFile(f.cursor, []byte(content), 0o600))
				listener, err := listen.New(f.config(t))
				require.NoError(t, err)
				require.ErrorContains(t, listener.Run(t.Context()), "cursor file cursor.json: ")
				kept, err := os.ReadFile(f.cursor)
				require.NoError(t, err)
				assert.Equal(t, content, string(kept))
			})
		})
	}
}

// Neither a Response nor the cursor contains a secret or patient data.
func TestResponseAndCursorLeakNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		var printed strings.Builder
		f.setReject(func(webhook.Delivery) bool { return true })
		f.start(t, func(c *listen.Config) { fmt.Fprintf(&printed, "%v %+v", c.Forwarder, c.Forwarder) }, func() {
			f.edit(t, 0, 1)
			time.Sleep(10 * time.Second)
			f.setReject(nil)
			time.Sleep(time.Minute)
		})
		require.Len(t, f.accepted, 1)
		for _, a := range f.responses {
			fmt.Fprintf(&printed, "%+v %#v", a, a)
		}
		fmt.Fprintf(&printed, "%+v", f.polls)
		cursor, err := os.ReadFile(f.cursor)
		require.NoError(t, err)
		f.platform.CheckNoLeak(t, printed.String(), string(cursor))
		assert.NotContains(t, printed.String()+string(cursor), "Zaphod")
		assert.NotContains(t, printed.String()+string(cursor), "Trillian")
	})
}
