package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// After an outage every clinic must have one whole run, even if its turn in the pass was
// before, and even if the program ends during the pass.
func TestOutageCausesWholeRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 6)
		slow := func(c *reconcile.Config) {
			c.Parallel = 1
			open := c.Open
			c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
				time.Sleep(10 * time.Second)
				return open(ctx, id, budget)
			}
		}
		all, stop := f.reconcileAll(t, time.Hour, slow)
		time.Sleep(30 * time.Minute)
		assert.Equal(t, []string{"w", "w", "w", "w", "w", "w"}, f.kinds())
		var unsent []string
		for _, clinic := range f.clinics {
			unsent = append(unsent, f.registerUnsent(t, clinic))
		}
		time.Sleep(30*time.Minute + 25*time.Second) // the third clinic has its turn
		all.RunAfterOutage(webhook.Outage{})
		all.RunAfterOutage(webhook.Outage{Over: true})
		time.Sleep(10 * time.Second)
		stop()
		f.reconcileAll(t, time.Hour, slow)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"sw", "sw", "sw", "ww", "ww", "ww"}, f.kinds())
		for _, id := range unsent {
			assert.True(t, f.wasHandled(id))
		}
		for _, clinic := range f.clinics {
			f.register(t, clinic) // its webhook arrives
		}
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"ws", "ws", "ws", "ws", "ws", "ws"}, f.kinds())
	})
}

// If no replica has run for more than two intervals, the receiver was down too, or the inbox
// was restored from a backup.
func TestLongPauseCausesWholeRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 2)
		for _, c := range []struct {
			pause time.Duration
			want  string
		}{{0, "w"}, {90 * time.Minute, "s"}, {3 * time.Hour, "w"}, {time.Hour, "s"}} {
			time.Sleep(c.pause)
			_, stop := f.reconcileAll(t, time.Hour, nil)
			time.Sleep(time.Second)
			stop()
			assert.Equal(t, []string{c.want, c.want}, f.kinds(), c.pause)
		}
	})
}

// failures returns the number of failed runs over a clinic.
func (f *clinicsFixture) failures(clinic string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed[clinic]
}

// changeCheckpoint changes the checkpoint of the first clinic.
func (f *clinicsFixture) changeCheckpoint(t *testing.T, change func(map[string]any)) {
	t.Helper()
	name := f.environment.String() + "/" + f.clinics[0]
	state, err := f.inbox.ClaimCheckpoint(t.Context(), name, "test", time.Minute)
	require.NoError(t, err)
	kept := map[string]any{}
	require.NoError(t, json.Unmarshal(state, &kept))
	change(kept)
	state, err = json.Marshal(kept)
	require.NoError(t, err)
	require.NoError(t, f.inbox.SaveCheckpoint(t.Context(), name, "test", state, time.Minute))
	require.NoError(t, f.inbox.ReleaseCheckpoint(t.Context(), name, "test"))
}

// A checkpoint written by a fast clock, or without an integration or a group, requires a whole
// run.
func TestIncompleteCheckpointCausesWholeRun(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"clock ahead":     func(c map[string]any) { c["whole"] = time.Now().Add(48 * time.Hour) },
		"new integration": func(c map[string]any) { c["integrations"], c["asked"] = []string{"another"}, time.Time{} },
		"new group":       func(c map[string]any) { delete(c["groups"].(map[string]any), "orders") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newReceivingFixture(t, 2)
				f.register(t, f.clinics[0])
				time.Sleep(2 * time.Hour)
				f.register(t, f.clinics[0])
				var listed atomic.Int32
				f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
					end := c.Observer.RunEnd
					c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
						for _, group := range report.Groups {
							listed.Add(int32(group.Listed))
						}
						end(ctx, report, err)
					}
				})
				time.Sleep(90 * time.Minute)
				assert.Equal(t, []string{"ws", "ws"}, f.kinds())
				assert.EqualValues(t, 2, listed.Swap(0))
				f.changeCheckpoint(t, change)
				time.Sleep(2 * time.Hour)
				assert.Equal(t, []string{"ws", "ss"}, f.kinds())
				want := map[bool]int32{true: 2, false: 1}[name == "new integration"]
				assert.Equal(t, want, listed.Load(), "the run begins at the checkpoint")
			})
		})
	}
}

// opened gives clinics a client with changed responses.
func (f *clinicsFixture) opened(c *reconcile.Config, change func(*http.Request, map[string]any)) {
	open := c.Open
	c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
		clinic, err := open(ctx, id, budget)
		clinic.Events = f.platform.Client(f.users[id], dispensary.WithTransport(changed(f.platform.HTTPClient().Transport, change))).Events
		return clinic, err
	}
}

// A delivery log that cannot be read, completely or partly, is no evidence of complete
// webhooks.
func TestUnreadableLogCausesWholeRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  model.Fault
		change func(*http.Request, map[string]any)
	}{
		"log fails": {fault: model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "webhook_deliveries.list"}},
		"delivery is unreadable": {
			fault: model.Fault{Effect: model.EffectDeliveryForged},
			change: func(_ *http.Request, body map[string]any) {
				for _, row := range items(body, "webhook_deliveries") {
					row["event_payload"] = map[string]any{}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newReceivingFixture(t, 1)
				var unread atomic.Int32
				f.reconcileAll(t, time.Hour, func(config *reconcile.Config) {
					end := config.Observer.RunEnd
					config.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
						if report.DeliveryLogErr != nil {
							unread.Add(1)
						}
						end(ctx, report, err)
					}
					if c.change != nil {
						f.opened(config, c.change)
					}
				})
				time.Sleep(30 * time.Minute)
				unsent := f.registerUnsent(t, f.clinics[0])
				fault := f.platform.Fault(c.fault)
				f.register(t, f.clinics[0])
				time.Sleep(time.Hour)
				fault.Remove()
				assert.Equal(t, []string{"ww"}, f.kinds())
				assert.True(t, f.wasHandled(unsent))
				assert.EqualValues(t, 1, unread.Load())
				f.register(t, f.clinics[0]) // its webhook arrives
				time.Sleep(10 * time.Hour)
				assert.True(t, strings.HasSuffix(f.kinds()[0], "sss"))
			})
		})
	}
}

// A failed run must be followed by a whole run, also in another process.
func TestFailedRunCausesWholeRun(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]string{"all reads": "", "one list": "events.list_orders"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newReceivingFixture(t, 1)
				_, stop := f.reconcileAll(t, time.Hour, nil)
				time.Sleep(30 * time.Minute)
				assert.Equal(t, []string{"w"}, f.kinds())
				unsent := f.registerUnsent(t, f.clinics[0])
				accept := f.refuse()
				f.register(t, f.clinics[0])
				fault := f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: operation})
				time.Sleep(30*time.Minute + 30*time.Second)
				assert.Equal(t, 1, f.failures(f.clinics[0]))
				stop()
				accept()
				fault.Remove()
				assert.Equal(t, operation == "events.list_orders", f.wasHandled(unsent))
				time.Sleep(10 * time.Minute) // the rejected webhook is retried successfully
				after := f.registerUnsent(t, f.clinics[0])
				f.reconcileAll(t, time.Hour, nil)
				time.Sleep(time.Minute)
				f.register(t, f.clinics[0]) // its webhook arrives
				time.Sleep(3 * time.Hour)
				assert.Equal(t, []string{"wss"}, f.kinds())
				assert.True(t, f.wasHandled(unsent))
				assert.True(t, f.wasHandled(after))
			})
		})
	}
}

// An event that the inbox rejects must fail one run and no later one. Every run must retry it.
func TestShortRunsRetryRejectedEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 1)
		var full atomic.Bool
		var gaps atomic.Int32
		f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
			end := c.Observer.RunEnd
			c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
				assert.Equal(t, full.Load() && gaps.Load() == 0, err != nil)
				gaps.Add(int32(len(report.Gaps)))
				end(ctx, report, err)
			}
			c.Inbox = hooked{f.inbox, onAccept(func() error {
				if full.Load() {
					return webhook.ErrUnstorable
				}
				return nil
			})}
		})
		time.Sleep(30 * time.Minute)
		f.refuse()
		refused := f.register(t, f.clinics[0])
		full.Store(true)
		time.Sleep(12 * time.Hour)
		assert.Equal(t, []string{"wssssssssssss"}, f.kinds())
		assert.Equal(t, 1, f.failures(f.clinics[0]))
		assert.EqualValues(t, 13, gaps.Load(), "one gap after a minute and one per run")
		full.Store(false)
		time.Sleep(3 * time.Hour)
		assert.Equal(t, []string{"sss"}, f.kinds())
		assert.True(t, f.wasHandled(refused))
	})
}

// An event that is listed, but whose read returns 404, must fail no run. Every run must retry
// it.
func TestShortRunsRetryMissingEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 1)
		unsent := f.registerUnsent(t, f.clinics[0])
		gone := f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 404, Operation: "events.get"})
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(90 * time.Minute)
		gone.Remove()
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"wsss"}, f.kinds())
		assert.Zero(t, f.failures(f.clinics[0]))
		assert.True(t, f.wasHandled(unsent))
	})
}

// A clinic that fails and recovers must have one whole run, also after an earlier outage.
func TestFailuresCauseSingleWholeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 1)
		all, _ := f.reconcileAll(t, time.Hour, nil)
		time.Sleep(30 * time.Minute)
		all.RunAfterOutage(webhook.Outage{Over: true})
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"ww"}, f.kinds())
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Times: 2 * pagesOfARun})
		time.Sleep(3 * time.Hour)
		assert.Positive(t, f.failures(f.clinics[0]))
		assert.Equal(t, []string{"wss"}, f.kinds())
	})
}

// If a process is killed after it has accepted the events of the log, the log shows no missing
// event. The next run must still be whole.
func TestKilledRunCausesWholeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 1)
		errKilled := errors.New("killed")
		var accepted atomic.Int32
		var killed atomic.Bool
		_, stop := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
			c.Inbox = hooked{f.inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
				if method == "Accept" && accepted.Add(1) == 2 {
					killed.Store(true)
				}
				if killed.Load() {
					return errKilled
				}
				return nil
			}}
		})
		time.Sleep(30 * time.Minute)
		accept := f.refuse()
		refused := f.register(t, f.clinics[0])
		time.Sleep(time.Second)
		unsent := f.registerUnsent(t, f.clinics[0])
		time.Sleep(30 * time.Minute)
		stop()
		accept()
		assert.True(t, f.wasHandled(refused))
		assert.False(t, f.wasHandled(unsent))
		assert.Equal(t, []string{"w"}, f.kinds())
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"ww"}, f.kinds())
		assert.True(t, f.wasHandled(unsent))
	})
}

// newReceivingFixture returns clinics that receive webhooks.
func newReceivingFixture(t *testing.T, clinics int) *clinicsFixture {
	t.Helper()
	f := newClinicsFixture(t, clinics)
	f.lost.Remove()
	app := f.platform.Application()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: f.environment, Secrets: []api.Secret{api.NewSecret(app.WebhookSecret)}, Challenge: api.NewSecret(app.ChallengeToken),
		Inbox: f.inbox, AcceptTimeout: patient,
	})
	require.NoError(t, err)
	require.NoError(t, f.platform.Webhooks.RegisterHandler(handler))
	return f
}

// register registers a patient with a clinic, and returns the ID of the event.
func (f *clinicsFixture) register(t *testing.T, clinic string) string {
	t.Helper()
	_, e, err := f.platform.Patients.Create(model.PatientCreate{ClinicID: clinic})
	require.NoError(t, err)
	synctest.Wait() // until its webhook was sent
	return e.ID
}

// registerUnsent registers a patient without an attempt to send the webhook.
func (f *clinicsFixture) registerUnsent(t *testing.T, clinic string) string {
	t.Helper()
	lost := f.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	defer lost.Remove()
	return f.register(t, clinic)
}

// refuse makes the receiver reject all webhooks until stop is called.
func (f *clinicsFixture) refuse() (stop func()) {
	return f.platform.Fault(model.Fault{Effect: model.EffectDeliveryForged}).Remove
}

// kinds returns the runs of each clinic since the last call, w for whole and s for short.
func (f *clinicsFixture) kinds() (all []string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, clinic := range f.clinics {
		kinds := ""
		for _, report := range f.runs[clinic] {
			kinds += map[bool]string{true: "s", false: "w"}[report.Short]
		}
		all = append(all, kinds)
		f.runs[clinic] = nil
	}
	return all
}

// pages counts the pages read for a clinic.
func (f *clinicsFixture) pages(clinic string) (n int) {
	for _, r := range f.platform.Journal.Requests() {
		if f.clinicOf[r.UserID] == clinic && (strings.HasPrefix(r.Operation, "events.list") || r.Operation == "webhook_deliveries.list") {
			n++
		}
	}
	return n
}

func (f *clinicsFixture) wasHandled(event string) bool {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handled[event] == 1
}

// If no event is missing, a run costs one call, except for one whole run per day.
func TestLoopMakesShortRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 3)
		f.reconcileAll(t, time.Hour, nil)
		day := "w" + strings.Repeat("s", 23)
		for range 2 {
			time.Sleep(90 * time.Minute)
			first := f.register(t, f.clinics[0])
			assert.True(t, f.wasHandled(first), "handled by its webhook")
			time.Sleep(24*time.Hour - 90*time.Minute - time.Second)
			assert.Equal(t, []string{day, day, day}, f.kinds())
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		f.platform.Journal.Reset()
		time.Sleep(24 * time.Hour)
		for _, clinic := range f.clinics {
			assert.Equal(t, 23*1+1*pagesOfARun, f.pages(clinic))
		}
	})
}

// A failed delivery is evidence: the whole run after it finds unsent events too. Without it,
// the next whole run finds them.
func TestFailedDeliveryCausesWholeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 2)
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(30 * time.Minute)
		assert.Equal(t, []string{"w", "w"}, f.kinds())
		unsent, alone := f.registerUnsent(t, f.clinics[0]), f.registerUnsent(t, f.clinics[1])
		accept := f.refuse()
		refused := f.register(t, f.clinics[0])
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"w", "s"}, f.kinds())
		assert.True(t, f.wasHandled(refused))
		assert.True(t, f.wasHandled(unsent))
		assert.False(t, f.wasHandled(alone))
		time.Sleep(8 * time.Hour) // all further attempts fail
		assert.Equal(t, []string{"wwwwwwww", "ssssssss"}, f.kinds(), "no webhook has arrived since the recovery")
		accept()
		f.register(t, f.clinics[0])
		time.Sleep(15 * time.Hour)
		assert.Equal(t, []string{"wssssssssssssss", "ssssssssssssssw"}, f.kinds())
		assert.True(t, f.wasHandled(alone))
	})
}

// A webhook that arrived with a later attempt must not cause a whole run.
func TestLateWebhookCausesNoWholeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 1)
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(30 * time.Minute)
		accept := f.refuse()
		late := f.register(t, f.clinics[0])
		accept()
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"ws"}, f.kinds())
		assert.True(t, f.wasHandled(late))
	})
}
