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

// After an outage every clinic has one whole run, also those whose turn in the pass was before,
// and also where the program ends meanwhile.
func TestRunsAreWholeAfterAnOutage(t *testing.T) {
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
		time.Sleep(30*time.Minute + 25*time.Second) // the third has its turn
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
			f.register(t, clinic) // and the webhook arrives
		}
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"ws", "ws", "ws", "ws", "ws", "ws"}, f.kinds())
	})
}

// Where no replica has run for longer than two intervals, the receiver was down, too, or the
// inbox comes from a backup.
func TestRunsAreWholeWhereNoneWasMadeForLong(t *testing.T) {
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

// failures returns how many runs over a clinic failed.
func (f *clinicsFixture) failures(clinic string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed[clinic]
}

// changeCheckpoint changes what is kept of the first clinic.
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

// A checkpoint from a clock that was ahead, or without an integration or a group, is followed by
// a whole run.
func TestRunsAreWholeWhereTheCheckpointSaysTooLittle(t *testing.T) {
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
				assert.Equal(t, want, listed.Load(), "it begins where the last one ended")
			})
		})
	}
}

// opened has clinics read with a client whose answers are changed.
func (f *clinicsFixture) opened(c *reconcile.Config, change func(*http.Request, map[string]any)) {
	open := c.Open
	c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
		clinic, err := open(ctx, id, budget)
		clinic.Events = f.platform.Client(f.users[id], dispensary.WithTransport(changed(f.platform.HTTPClient().Transport, change))).Events
		return clinic, err
	}
}

// A log that cannot be read, as a whole or in part, is no evidence that nothing is missing.
func TestRunsAreWholeWhereTheLogSaysNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  model.Fault
		change func(*http.Request, map[string]any)
	}{
		"it fails": {fault: model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "webhook_deliveries.list"}},
		"a delivery cannot be read": {
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
				f.register(t, f.clinics[0]) // and the webhook arrives
				time.Sleep(10 * time.Hour)
				assert.True(t, strings.HasSuffix(f.kinds()[0], "sss"))
			})
		})
	}
}

// A run that failed is followed by a whole one, in another process as well.
func TestRunsAreWholeAfterOneThatFailed(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]string{"in all it reads": "", "in a list": "events.list_orders"} {
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
				time.Sleep(10 * time.Minute) // the webhook that was refused gets through
				after := f.registerUnsent(t, f.clinics[0])
				f.reconcileAll(t, time.Hour, nil)
				time.Sleep(time.Minute)
				f.register(t, f.clinics[0]) // and the webhook arrives
				time.Sleep(3 * time.Hour)
				assert.Equal(t, []string{"wss"}, f.kinds())
				assert.True(t, f.wasHandled(unsent))
				assert.True(t, f.wasHandled(after))
			})
		})
	}
}

// An event that the inbox rejects makes one run fail, and no later one. Every run retries it.
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
		assert.EqualValues(t, 13, gaps.Load(), "the retry a minute later, and each run")
		full.Store(false)
		time.Sleep(3 * time.Hour)
		assert.Equal(t, []string{"sss"}, f.kinds())
		assert.True(t, f.wasHandled(refused))
	})
}

// An event that the platform lists and responds to with 404 makes no run fail. Every run
// retries it.
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

// A clinic that fails and recovers has one whole run, also if there was an outage some day.
func TestOneWholeRunAfterOneThatFailed(t *testing.T) {
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

// A process that is killed after it has accepted what the log has, leaves no evidence there.
// The next run is a whole one all the same.
func TestRunsAreWholeAfterOneThatWasKilled(t *testing.T) {
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

// newReceivingFixture makes clinics whose webhooks arrive.
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

// register registers a patient with a clinic, and returns the event.
func (f *clinicsFixture) register(t *testing.T, clinic string) string {
	t.Helper()
	_, e, err := f.platform.Patients.Create(model.PatientCreate{ClinicID: clinic})
	require.NoError(t, err)
	synctest.Wait() // until its webhook is sent
	return e.ID
}

// registerUnsent registers a patient, and no attempt is made to send the webhook.
func (f *clinicsFixture) registerUnsent(t *testing.T, clinic string) string {
	t.Helper()
	lost := f.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	defer lost.Remove()
	return f.register(t, clinic)
}

// refuse has the receiver refuse all webhooks from now on.
func (f *clinicsFixture) refuse() (stop func()) {
	return f.platform.Fault(model.Fault{Effect: model.EffectDeliveryForged}).Remove
}

// kinds says of each clinic which runs were whole (w) and which were short (s), since the
// last call.
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

// pages counts the pages that were read of a clinic.
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

// Where nothing is missing, a clinic takes one call a run, and those of a whole run a day.
func TestRunsAreShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 3)
		f.reconcileAll(t, time.Hour, nil)
		day := "w" + strings.Repeat("s", 23)
		for range 2 {
			time.Sleep(90 * time.Minute)
			first := f.register(t, f.clinics[0])
			assert.True(t, f.wasHandled(first), "by its webhook")
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

// One delivery that failed is evidence: what the platform did not even try to send is found
// with it. Without any it is found by the next whole run.
func TestShortRunFindsWhatTheLogHas(t *testing.T) {
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
		time.Sleep(8 * time.Hour) // the attempts go on, and all of them fail
		assert.Equal(t, []string{"wwwwwwww", "ssssssss"}, f.kinds(), "no webhook has arrived since the recovery")
		accept()
		f.register(t, f.clinics[0])
		time.Sleep(15 * time.Hour)
		assert.Equal(t, []string{"wssssssssssssss", "ssssssssssssssw"}, f.kinds())
		assert.True(t, f.wasHandled(alone))
	})
}

// What gets through with a later attempt is no reason for a whole run.
func TestShortRunWhereALaterAttemptSucceeds(t *testing.T) {
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
