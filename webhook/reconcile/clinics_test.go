package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// pagesOfARun is the number of pages in a run: the delivery log and the event lists, with one
// page each.
var pagesOfARun = 1 + len(events.Groups())

// The test has 500 clinics with three users each. The platform does not serve 50 of them for
// an hour.
func TestLoopServesManyClinics(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		const interval, budget, per = 30 * time.Minute, 1000, 5 * time.Minute
		f := newClinicsFixture(t, 500)
		down, up := f.clinics[100:150], slices.Concat(f.clinics[:100], f.clinics[150:])
		for _, id := range down {
			f.down[id] = true
		}
		f.happen(t, 3, f.clinics[80:120]...)
		limiter, err := ratelimit.New(budget, per)
		require.NoError(t, err)
		start := time.Now()
		all, _ := f.reconcileAll(t, interval, func(c *reconcile.Config) { c.Budget = limiter })

		time.Sleep(interval + interval/2)
		synctest.Wait()
		f.happen(t, 2, f.clinics[110:300]...)
		stats := all.Stats()
		assert.Len(t, stats.Failing, len(down))
		assert.WithinDuration(t, start, stats.Oldest, time.Minute, "failing clinics without a successful run")
		time.Sleep(interval / 2)
		f.mu.Lock()
		clear(f.down)
		f.mu.Unlock()
		time.Sleep(interval + interval/2 + interval/4)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()

		// Every event is handled once.
		happened := f.platform.Events()
		assert.Len(t, happened, 40*3+190*2)
		assert.Len(t, f.handled, len(happened))
		missed := map[string]int{}
		for _, e := range happened {
			assert.Equal(t, 1, f.handled[e.ID])
			missed[e.ClinicID]++
		}

		// A clinic costs the pages of its runs, and one call for each missed event.
		calls := f.calls(t)
		total := 0
		for _, id := range f.clinics {
			pages, reads := 0, 0
			for _, report := range f.runs[id] {
				assert.Equal(t, pagesOfARun, report.Pages)
				pages, reads = pages+report.Pages, reads+report.Reads
			}
			assert.LessOrEqual(t, reads, missed[id])
			assert.Equal(t, pages+reads, calls[id])
			total += calls[id]
		}
		assert.Len(t, f.platform.Journal.Requests(), total, "no other calls")

		// Every period stays within the budget, including outages and retries.
		for i := budget; i < len(f.sent); i++ {
			require.GreaterOrEqual(t, f.sent[i].Sub(f.sent[i-budget]), per)
		}

		// Failing clinics must not delay the others: each pass must end as soon as the budget
		// allows.
		for _, id := range up {
			require.Len(t, f.runs[id], 4)
			for pass, at := range f.ended[id] {
				assert.WithinRange(t, at, start.Add(time.Duration(pass)*interval), start.Add(time.Duration(pass)*interval+25*time.Minute))
			}
			assert.Zero(t, f.failed[id])
		}
		for _, id := range down {
			assert.NotEmpty(t, f.runs[id])
			assert.InDelta(t, 6, f.failed[id], 1, "retries after 1, 2, 4, 8, 16 minutes, and the interval")
		}
		stats = all.Stats()
		assert.Empty(t, stats.Failing)
		assert.Equal(t, 3*interval, stats.PassBegan.Sub(start))
		assert.Equal(t, stats.PassBegan, stats.Oldest)
		t.Log(total, "answered calls of", len(f.sent), "for", len(happened), "events")
	})
}

// The budget allows one clinic in ten minutes. A restarted program must continue with the next
// clinic instead of the first.
func TestRestartedLoopContinuesPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 7)
		for n := range f.clinics {
			limiter, err := ratelimit.New(pagesOfARun+1, 10*time.Minute) // leaves a part for other calls
			require.NoError(t, err)
			_, stop := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) { c.Budget, c.Parallel = limiter, 1 })
			time.Sleep(10*time.Minute - time.Second)
			want := make([]int, len(f.clinics))
			for i := range n + 1 {
				want[i] = 1
			}
			assert.Equal(t, want, f.reconciled())
			stop()
			time.Sleep(time.Second)
		}
	})
}

func TestReplicasShareClinics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 30)
		var mu sync.Mutex
		shares := make([]int, 3)
		for i := range shares {
			f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
				c.Parallel = 1
				open := c.Open
				c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
					mu.Lock()
					shares[i]++
					mu.Unlock()
					time.Sleep(10 * time.Second)
					return open(ctx, id, budget)
				}
			})
		}
		for pass := 1; pass <= 3; pass++ {
			time.Sleep(59 * time.Minute)
			assert.Equal(t, slices.Repeat([]int{pass}, 30), f.reconciled(), "one run per pass, by one replica")
			time.Sleep(time.Minute)
		}
		mu.Lock() // the next pass has begun
		defer mu.Unlock()
		for _, share := range shares {
			assert.Positive(t, share)
		}
	})
}

func TestOutageEndTriggersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 5)
		first, _ := f.reconcileAll(t, time.Hour, nil)
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []int{1, 1, 1, 1, 1}, f.reconciled())
		time.Sleep(time.Minute)
		first.RunAfterOutage(webhook.Outage{})
		time.Sleep(time.Minute)
		assert.Equal(t, []int{1, 1, 1, 1, 1}, f.reconciled(), "a continuing outage triggers no pass")
		first.RunAfterOutage(webhook.Outage{Over: true})
		time.Sleep(time.Minute)
		assert.Equal(t, []int{2, 2, 2, 2, 2}, f.reconciled())
		time.Sleep(56 * time.Minute)
		assert.Equal(t, []int{2, 2, 2, 2, 2}, f.reconciled(), "the interval restarts")
		time.Sleep(4 * time.Minute)
		assert.Equal(t, []int{3, 3, 3, 3, 3}, f.reconciled())
	})
}

// After an outage that ends during a pass, every clinic has one more run, even if the program ends
// before.
func TestOutageEndDuringPassTriggersAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 6)
		slow := func(c *reconcile.Config) {
			c.Parallel = 1
			c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
				time.Sleep(10 * time.Second)
				return f.open(ctx, id, budget)
			}
		}
		all, stop := f.reconcileAll(t, time.Hour, slow)
		time.Sleep(25 * time.Second) // the third clinic has its turn
		all.RunAfterOutage(webhook.Outage{Over: true})
		time.Sleep(10 * time.Second)
		stop()
		f.reconcileAll(t, time.Hour, slow)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []int{2, 2, 2, 2, 2, 2}, f.reconciled())
	})
}

// A clinic without a connected user must log one warning, block no other clinic, and be
// reconciled soon after a user has connected.
func TestDisconnectedClinicBlocksNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 3)
		lost := f.clinics[1]
		var revoked atomic.Bool
		var log logtest.Buffer
		all, _ := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
				if id == lost && revoked.Load() {
					return reconcile.Clinic{}, api.ErrReauthorize
				}
				return f.open(ctx, id, budget)
			}
		})
		time.Sleep(time.Minute)
		log.Take()
		revoked.Store(true)
		f.happen(t, 1, lost)
		time.Sleep(75 * time.Minute)
		assert.Equal(t, []int{2, 1, 2}, f.reconciled())
		stats := all.Stats()
		require.Len(t, stats.Failing, 1)
		assert.Equal(t, lost, stats.Failing[0].ClinicID)
		require.ErrorIs(t, stats.Failing[0].Err, api.ErrReauthorize)
		assert.True(t, stats.Failing[0].Disconnected())
		assert.Equal(t, stats.Failing[0].Since, stats.Oldest)
		logged := log.Take()
		assert.Equal(t, 1, strings.Count(logged, "no user of the clinic is connected"))
		assert.NotContains(t, logged, "level=ERROR")

		revoked.Store(false)
		time.Sleep(30 * time.Minute)
		assert.Equal(t, []int{2, 2, 2}, f.reconciled())
		assert.Empty(t, all.Stats().Failing)
		assert.Len(t, f.handled, 1)
	})
}

// A failing clinic that is no longer listed must not be retried or reported.
func TestUnlistedClinicIsForgotten(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]int{"first": 0, "between": 2, "last": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newClinicsFixture(t, 5)
				f.down[f.clinics[left]], f.down[f.clinics[1]] = true, true
				var gone atomic.Bool
				all, _ := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
					c.Parallel = 2
					c.List = func(_ context.Context, after string, limit int) ([]string, error) {
						listed := slices.DeleteFunc(slices.Clone(f.clinics), func(id string) bool {
							return id <= after || gone.Load() && id == f.clinics[left]
						})
						return listed[:min(limit, len(listed))], nil
					}
				})
				time.Sleep(30 * time.Minute)
				require.Len(t, all.Stats().Failing, 2)
				gone.Store(true)
				time.Sleep(2 * time.Hour)
				failing := all.Stats().Failing
				require.Len(t, failing, 1)
				assert.Equal(t, f.clinics[1], failing[0].ClinicID)
				failed := f.failures(f.clinics[left])
				time.Sleep(2 * time.Hour)
				assert.Equal(t, failed, f.failures(f.clinics[left]))
			})
		})
	}
}

// If another replica has reconciled a clinic, a replica must not repeat its own failed run.
func TestReplicaSkipsReconciledClinic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 1)
		clinic := f.clinics[0]
		f.down[clinic] = true
		var skipped atomic.Int32
		all, _ := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
			c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
				if report.Skipped {
					skipped.Add(1)
				}
				f.observe(ctx, report, err)
			}
		})
		time.Sleep(30 * time.Second)
		require.Len(t, all.Stats().Failing, 1)
		f.mu.Lock()
		f.down[clinic] = false
		f.mu.Unlock()
		other, err := reconcile.New(f.config())
		require.NoError(t, err)
		_, err = other.Run(t.Context(), clinic)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 1, skipped.Load())
		assert.Equal(t, []int{1}, f.reconciled())
		assert.Empty(t, all.Stats().Failing)
	})
}

// Errors and panics of your functions must not end the loop.
func TestLoopSurvivesFailingFunctions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 3)
		var lists, opens atomic.Int32
		f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
			list, open := c.List, c.Open
			c.Parallel = 1
			c.List = func(ctx context.Context, after string, limit int) ([]string, error) {
				switch lists.Add(1) {
				case 1:
					return nil, errors.New("no database")
				case 2:
					panic("a mistake")
				case 3:
					return []string{""}, nil
				}
				return list(ctx, after, limit)
			}
			c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
				if opens.Add(1) == 1 {
					panic("a mistake")
				}
				return open(ctx, id, budget)
			}
		})
		time.Sleep(3*time.Minute + time.Second)
		assert.Equal(t, []int{0, 1, 1}, f.reconciled())
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []int{1, 1, 1}, f.reconciled())
	})
}

func TestNewRejectsBadConfig(t *testing.T) {
	t.Parallel()
	f := newClinicsFixture(t, 1)
	for field, change := range map[string]func(*reconcile.Config){
		"Config.List":        func(c *reconcile.Config) { c.List = nil },
		"Config.Open":        func(c *reconcile.Config) { c.Open = nil },
		"Config.Parallel":    func(c *reconcile.Config) { c.Parallel = -1 },
		"Config.Inbox":       func(c *reconcile.Config) { c.Inbox = nil },
		"Config.Environment": func(c *reconcile.Config) { c.Environment = "" },
		"Config.Groups":      func(c *reconcile.Config) { c.Groups = []events.Group{"order"} },
		"Config.FirstRun":    func(c *reconcile.Config) { c.FirstRun = -1 },
		"Config.Overlap":     func(c *reconcile.Config) { c.Overlap = -1 },
	} {
		c := f.config()
		change(&c)
		_, err := reconcile.New(c)
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument, field)
		assert.Equal(t, "reconcile."+field, argument.Field)
	}
	all, err := reconcile.New(f.config())
	require.NoError(t, err)
	require.ErrorIs(t, all.Loop(t.Context(), 0), api.ErrArgument)
	ended := errors.New("the program ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	require.ErrorIs(t, all.Loop(ctx, time.Hour), ended)
	_, err = all.Run(t.Context(), "")
	require.ErrorIs(t, err, api.ErrArgument)
	assert.Zero(t, all.Stats())
}

func TestIntegrationsAreCached(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	asked := 0
	run := func() {
		s.reconcile(t, func(c *config) {
			integrations := c.Integrations
			c.Integrations = func(ctx context.Context) ([]string, error) {
				asked++
				return integrations(ctx)
			}
		})
	}
	for _, want := range []int{1, 1, 1, 2, 2} {
		run()
		assert.Equal(t, want, asked)
		s.clock.Advance(9 * time.Hour)
	}
}

// A loop must end within seconds of its context, even if the storage hangs.
func TestLoopEndsPromptly(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"no response": nil, "held by another replica": engine.ErrCheckpointHeld} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newClinicsFixture(t, 10)
				var stalled atomic.Bool
				_, stop := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
					c.Inbox = hooked{f.inbox, func(ctx context.Context, method string, _ webhook.Delivery) error {
						if !stalled.Load() || !strings.HasSuffix(method, "Checkpoint") {
							return nil
						}
						if err == nil {
							<-ctx.Done()
							return ctx.Err()
						}
						return err
					}}
					c.Open = func(ctx context.Context, _ string, _ api.Limiter) (reconcile.Clinic, error) {
						<-ctx.Done()
						return reconcile.Clinic{}, ctx.Err()
					}
				})
				time.Sleep(10 * time.Second)
				stalled.Store(true)
				ended := time.Now()
				stop()
				assert.Less(t, time.Since(ended), 10*time.Second)
			})
		})
	}
}

// Each deployment stops loops, so the end of the context must log no error, wherever it happens.
func TestStopLogsNoError(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"ClaimCheckpoint", "SaveCheckpoint", "Missing", "Accept"} {
		for skip := range 3 { // the first checkpoint is that of the pass
			t.Run(fmt.Sprint(method, " ", skip), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := newClinicsFixture(t, 2)
					f.happen(t, 3, f.clinics...)
					var log logtest.Buffer
					var calls atomic.Int32
					_, stop := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
						c.Logger = slog.New(slog.NewTextHandler(&log, nil))
						c.Inbox = hooked{f.inbox, func(ctx context.Context, called string, _ webhook.Delivery) error {
							if called != method || int(calls.Add(1)) <= skip {
								return nil
							}
							<-ctx.Done()
							return fmt.Errorf("inbox: %w", ctx.Err())
						}}
					})
					time.Sleep(10 * time.Second)
					stop()
					assert.NotContains(t, log.Take(), "level=ERROR")
				})
			})
		}
	}
}

// A loop that ends returns its interrupted and unused turns to the other replicas, even if one
// of them takes turns at that moment. Otherwise these clinics would wait for the next pass.
func TestEndedLoopReturnsTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 7)
		var ending atomic.Bool
		var held atomic.Int32
		_, stop := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
			c.Parallel = 2
			c.Inbox = hooked{f.inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
				if ending.Load() && method == "ClaimCheckpoint" && held.Add(1) <= 2 {
					return engine.ErrCheckpointHeld
				}
				return nil
			}}
			c.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
				if id == f.clinics[0] || id == f.clinics[2] {
					<-ctx.Done()
				}
				return f.open(ctx, id, budget)
			}
		})
		time.Sleep(time.Minute)
		assert.Equal(t, []int{0, 1, 0, 0, 0, 0, 0}, f.reconciled())
		ending.Store(true)
		stop()
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []int{1, 1, 1, 1, 1, 1, 1}, f.reconciled())
		assert.EqualValues(t, 3, held.Load())
	})
}

// The user of a clinic has moved on the platform, so the lists have events of the other clinic.
func TestRunAcceptsNoEventOfOtherClinic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newClinicsFixture(t, 2)
		mine, other := f.clinics[0], f.clinics[1]
		f.happen(t, 3, other)
		asked := 0
		config := f.config()
		config.Open = func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
			clinic, err := f.open(ctx, other, budget)
			clinic.Integrations = func(context.Context) ([]string, error) {
				asked++
				return []string{f.integrations[mine]}, nil
			}
			return clinic, err
		}
		all, err := reconcile.New(config)
		require.NoError(t, err)
		for n := range 2 {
			_, err = all.Run(t.Context(), mine)
			var changed *api.AccountChangedError
			require.ErrorAs(t, err, &changed)
			assert.Equal(t, api.Account{ClinicID: other}, changed.Now)
			assert.Equal(t, n+1, asked, "each run must ask for the clinic of the user")
		}
		synctest.Wait()
		assert.Empty(t, f.handled)
	})
}
