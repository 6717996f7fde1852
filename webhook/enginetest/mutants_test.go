package enginetest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/enginetest"
)

// mutants are engines that break one promise each, by the test that has to
// notice.
var mutants = map[string]struct {
	notices string
	storage func() enginetest.Storage
}{
	"every event is new":        {"Accept/Once", wrapped(func(e *mutant) { e.accept = alwaysNew })},
	"integrations are one":      {"Accept/KeysAreWhole", wrapped(func(e *mutant) { e.accept = byEventID() })},
	"check, then act":           {"Accept/ConcurrentlyOnce", wrapped(func(e *mutant) { e.accept = checkThenAct() })},
	"one in ten is lost":        {"Accept/ConcurrentlyOnce", wrapped(func(e *mutant) { e.accept = loseSome() })},
	"ended contexts are stored": {"Accept/ContextHasEnded", wrapped(func(e *mutant) { e.accept = noContext })},
	"bodies are rewritten":      {"Accept/AnyEvent", wrapped(func(e *mutant) { e.accept = rewriteBody })},
	"errors are swallowed":      {"Attempts/Repeated", worked(func(w *webhook.Work) { swallow(w) })},
	"retries come at once":      {"Attempts/Repeated", worked(func(w *webhook.Work) { w.Retry.BackOff = time.Nanosecond })},
	"no time-out":               {"Attempts/EveryFailure", worked(func(w *webhook.Work) { w.HandlerTimeout = time.Hour })},
	"permanent is not":          {"Attempts/Permanent", worked(forgetMark)},
	"too many workers":          {"Attempts/BoundedWorkers", worked(func(w *webhook.Work) { w.Workers *= 2 })},
	"letters are not listed":    {"DeadLetters/Listed", wrapped(func(e *mutant) { e.list = none })},
	"lists open bodies":         {"DeadLetters/Listed", wrapped(func(e *mutant) { e.list = openAll })},
	"filters are ignored":       {"Held/Filtered", wrapped(func(e *mutant) { e.list = byState })},
	"counts have no limit":      {"Held/Filtered", wrapped(func(e *mutant) { e.count = countAll })},
	"replays are not made":      {"DeadLetters/Replayed", wrapped(func(e *mutant) { e.replay = pretend })},
	"replays have no end":       {"Held/Bulk", wrapped(func(e *mutant) { e.replay = replayBeyond })},
	"replays are all or none":   {"Held/Bulk", wrapped(func(e *mutant) { e.replay = replayUncounted })},
	"letters are not discarded": {"DeadLetters/Discarded", wrapped(func(e *mutant) { e.discard = pretend })},
	"anything can be replayed":  {"DeadLetters/Refused", wrapped(func(e *mutant) { e.replay = pretend })},
	"replays need no end":       {"Held/Unbounded", wrapped(func(e *mutant) { e.replay = pretend })},
	"no order":                  {"Order/OldestFirst", worked(func(w *webhook.Work) { w.Order, w.Stale = nil, webhook.StaleIgnore })},
	"created like any other":    {"Order/CreatedFirst", wrapped(func(e *mutant) { e.accept = forgetType })},
	"the same time as another":  {"Order/OneAtATime", worked(func(w *webhook.Work) { w.Order = nil })},
	"order without mercy":       {"Order/FailureHoldsUp", worked(func(w *webhook.Work) { w.Order = oneForAll })},
	"no guard":                  {"Stale/Skipped", worked(func(w *webhook.Work) { w.Stale = webhook.StaleIgnore })},
	"write checks store events": {"Stats/CheckWrite", wrapped(func(e *mutant) { e.check = storeEvent })},
	"write checks never fail":   {"Stats/CheckWriteEnded", wrapped(func(e *mutant) { e.check = neverFail })},
	"accepts when closed":       {"Close/Idle", wrapped(func(e *mutant) { e.accept = reopen })},
	"durable in name only":      {"Close/Restart", claimed(func(s *enginetest.Storage) { s.Durable = true })},
	"stored in clear":           {"Sealed/AtRest", inClear},
	"errors are logged":         {"Sealed/Logged", worked(logErrors)},
	"rows are left behind":      {"Transaction/Error", claimed(leaveRows)},
	"any context will do":       {"Transaction/NoHandler", claimed(leaveRows)},
	"everything is missing":     {"Reconcile/Missing", reconciled(func(e *reconcilable) { e.missing = everything })},
	"seen for one, for all":     {"Reconcile/MissingWholeKeys", reconciled(func(e *reconcilable) { e.missing = byEventIDs })},
	"missing in any order":      {"Reconcile/MissingInOrder", reconciled(func(e *reconcilable) { e.missing = reversed })},
	"missing twice":             {"Reconcile/MissingInOrder", reconciled(func(e *reconcilable) { e.missing = repeated })},
	"none is missing, perhaps":  {"Reconcile/MissingEnded", reconciled(func(e *reconcilable) { e.missing = noError })},
	"every claim succeeds":      {"Reconcile/Checkpoint", reconciled(func(e *reconcilable) { e.holder = "anybody" })},
	"every save claims":         {"Reconcile/Checkpoint", reconciled(func(e *reconcilable) { e.save = claimAndSave })},
	"every caller releases":     {"Reconcile/Checkpoint", reconciled(func(e *reconcilable) { e.releaser = "first" })},
	"names are folded":          {"Reconcile/CheckpointNames", reconciled(func(e *reconcilable) { e.name = strings.ToLower })},
	"claims do not end":         {"Reconcile/CheckpointExpires", reconciled(func(e *reconcilable) { e.ttl = time.Hour })},
	"claims are not extended":   {"Reconcile/CheckpointExtends", reconciled(func(e *reconcilable) { e.ttl = 50 * time.Millisecond })},
	"check, then claim":         {"Reconcile/CheckpointOnce", reconciled(func(e *reconcilable) { e.claim = checkThenClaim() })},
	"forgotten with a restart":  {"Reconcile/CheckpointRestart", claimed(func(s *enginetest.Storage) { s.Durable = true })},
}

// TestTheSuiteNotices runs each mutant in a process of its own, where the suite
// has to fail.
func TestTheSuiteNotices(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chapter, test, _ := strings.Cut(m.notices, "/")
			suite := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestMutant$/^"+chapter+"$/^"+test+"$", "-test.count=1", "-test.v")
			suite.Env = append(os.Environ(), "ENGINETEST_MUTANT="+name)
			output, err := suite.CombinedOutput()
			var exit *exec.ExitError
			assert.ErrorAs(t, err, &exit, "the suite is content")
			assert.Contains(t, string(output), "--- FAIL: TestMutant/"+m.notices)
		})
	}
}

// TestMutant is the suite in the process of a mutant.
func TestMutant(t *testing.T) {
	m, ok := mutants[os.Getenv("ENGINETEST_MUTANT")]
	if !ok {
		t.Skip("runs in the processes that TestTheSuiteNotices starts")
	}
	enginetest.Run(t, func(*testing.T) enginetest.Storage {
		s := m.storage()
		s.Patience = 2 * time.Second
		return s
	})
}

// mutant is an engine some of whose methods are others.
type mutant struct {
	engine.Engine
	accept          func(context.Context, engine.Engine, webhook.Delivery) (webhook.Receipt, error)
	list            func(context.Context, engine.Engine, engine.Filter, engine.Position, int) ([]engine.Event, error)
	count           func(context.Context, engine.Engine, engine.Filter) (engine.Counts, error)
	replay, discard func(context.Context, engine.Engine, engine.Filter) (int, error)
	check           func(context.Context, engine.Engine) error
}

func (m *mutant) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if m.accept != nil {
		return m.accept(ctx, m.Engine, d)
	}
	return m.Engine.Accept(ctx, d)
}

func (m *mutant) CheckWrite(ctx context.Context) error {
	if m.check != nil {
		return m.check(ctx, m.Engine)
	}
	return m.Engine.CheckWrite(ctx)
}

func (m *mutant) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	if m.list != nil {
		return m.list(ctx, m.Engine, f, after, limit)
	}
	return m.Engine.List(ctx, f, after, limit)
}

func (m *mutant) Count(ctx context.Context, f engine.Filter, most int) (engine.Counts, error) {
	if m.count != nil {
		return m.count(ctx, m.Engine, f)
	}
	return m.Engine.Count(ctx, f, most)
}

func (m *mutant) Replay(ctx context.Context, f engine.Filter) (int, error) {
	if m.replay != nil {
		return m.replay(ctx, m.Engine, f)
	}
	return m.Engine.Replay(ctx, f)
}

func (m *mutant) Discard(ctx context.Context, f engine.Filter) (int, error) {
	if m.discard != nil {
		return m.discard(ctx, m.Engine, f)
	}
	return m.Engine.Discard(ctx, f)
}

// wrapped changes the engine, worked the work, and claimed the storage.
func wrapped(change func(*mutant)) func() enginetest.Storage {
	return func() enginetest.Storage {
		return enginetest.Storage{Ordered: true, Open: func(w webhook.Work) (engine.Engine, error) {
			inbox, err := openMemory(w)
			m := &mutant{Engine: inbox}
			change(m)
			return m, err
		}}
	}
}

func worked(change func(*webhook.Work)) func() enginetest.Storage {
	return func() enginetest.Storage {
		return enginetest.Storage{Ordered: true, Open: func(w webhook.Work) (engine.Engine, error) {
			change(&w)
			return openMemory(w)
		}}
	}
}

func claimed(change func(*enginetest.Storage)) func() enginetest.Storage {
	return func() enginetest.Storage {
		s := enginetest.Storage{Ordered: true, Open: openMemory}
		change(&s)
		return s
	}
}

func inClear() enginetest.Storage {
	var mu sync.Mutex
	var stored bytes.Buffer
	s := wrapped(func(m *mutant) {
		m.accept = func(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
			mu.Lock()
			defer mu.Unlock()
			stored.Write(d.Body)
			return e.Accept(ctx, d)
		}
	})()
	s.Dump = func(*testing.T) []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(stored.Bytes())
	}
	return s
}

func alwaysNew(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
	_, err := e.Accept(ctx, d)
	return webhook.Receipt{}, err
}

func byEventID() func(context.Context, engine.Engine, webhook.Delivery) (webhook.Receipt, error) {
	var known sync.Map
	return func(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.LoadOrStore(d.Key.EventID, true); ok {
			return webhook.Receipt{Duplicate: true}, ctx.Err()
		}
		return e.Accept(ctx, d)
	}
}

func checkThenAct() func(context.Context, engine.Engine, webhook.Delivery) (webhook.Receipt, error) {
	var known sync.Map
	return func(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.Load(d.Key); ok {
			return webhook.Receipt{Duplicate: true}, nil
		}
		<-time.After(time.Millisecond) // others come between
		_, err := e.Accept(ctx, d)
		known.Store(d.Key, true)
		return webhook.Receipt{}, err
	}
}

func loseSome() func(context.Context, engine.Engine, webhook.Delivery) (webhook.Receipt, error) {
	return func(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
		if strings.HasSuffix(d.Key.EventID, "7") {
			return webhook.Receipt{}, nil
		}
		return e.Accept(ctx, d)
	}
}

func noContext(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := e.Accept(context.WithoutCancel(ctx), d)
	return receipt, errors.Join(err, ctx.Err())
}

func rewriteBody(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
	d.Body = bytes.TrimSpace(d.Body)
	return e.Accept(ctx, d)
}

func forgetType(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
	d.Type = events.PatientUpdated
	return e.Accept(ctx, d)
}

func reopen(ctx context.Context, e engine.Engine, d webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := e.Accept(ctx, d)
	if errors.Is(err, webhook.ErrInboxClosed) {
		return webhook.Receipt{}, nil
	}
	return receipt, err
}

func swallow(w *webhook.Work) {
	handle := w.Handle
	w.Handle = func(ctx context.Context, e events.Event) error {
		_ = handle(ctx, e)
		return nil
	}
}

func logErrors(w *webhook.Work) {
	handle, logger := w.Handle, w.Logger
	w.Handle = func(ctx context.Context, e events.Event) error {
		err := handle(ctx, e)
		if logger != nil && err != nil {
			logger.Error("failed", "err", err)
		}
		return err
	}
}

func leaveRows(s *enginetest.Storage) {
	var mu sync.Mutex
	var rows []string
	s.InTransaction = func(ctx context.Context, then func() error) error {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, webhook.HandlingFrom(ctx).Key.String())
		return then()
	}
	s.Rows = func(*testing.T) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(rows)
	}
}

func forgetMark(w *webhook.Work) {
	handle := w.Handle
	w.Handle = func(ctx context.Context, e events.Event) error { return errors.New(handle(ctx, e).Error()) }
}

func oneForAll(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
	return webhook.NewOrderingKey(d, "all", "all")
}

func none(context.Context, engine.Engine, engine.Filter, engine.Position, int) ([]engine.Event, error) {
	return nil, nil
}

func openAll(ctx context.Context, e engine.Engine, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	all, err := e.List(ctx, f, after, limit)
	for n := range all {
		all[n], err = e.Open(ctx, all[n].Key)
	}
	return all, err
}

func byState(ctx context.Context, e engine.Engine, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	return e.List(ctx, engine.Filter{States: f.States, Until: f.Until}, after, limit)
}

func countAll(ctx context.Context, e engine.Engine, f engine.Filter) (engine.Counts, error) {
	return e.Count(ctx, f, 0)
}

func pretend(_ context.Context, _ engine.Engine, f engine.Filter) (int, error) {
	return max(1, len(f.Keys)), nil
}

func replayBeyond(ctx context.Context, e engine.Engine, f engine.Filter) (int, error) {
	if !f.Until.IsZero() {
		f.Until.At = f.Until.At.Add(time.Hour)
	}
	return e.Replay(ctx, f)
}

func replayUncounted(ctx context.Context, e engine.Engine, f engine.Filter) (int, error) {
	n, err := e.Replay(ctx, f)
	if err != nil {
		n = 0
	}
	return n, err
}

func storeEvent(ctx context.Context, e engine.Engine) error {
	_, err := e.Accept(ctx, webhook.Delivery{Key: webhook.Key{EventID: "check"}, ReceivedAt: time.Now(), Body: []byte("{}")})
	return err
}

func neverFail(context.Context, engine.Engine) error { return nil }
