package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/storetest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// mutantVariable names the mistake that TestMutant plays the suite with, in a
// separate process: it is meant to fail there.
const mutantVariable = "DISPENSARY_TEST_MUTANT"

// mutants are stores with one mistake each, which real ones have made, and the
// test that has to find it.
var mutants = map[string]struct {
	foundBy string
	breaks  func(*mutant)
}{
	"folds case":               {"UsersAreBytes", func(m *mutant) { m.key = fold(strings.ToLower) }},
	"ignores space at the end": {"InvalidKeys", func(m *mutant) { m.key = fold(func(s string) string { return strings.TrimRight(s, " ") }) }},
	"mixes environments":       {"EnvironmentsAreWorlds", func(m *mutant) { m.key = func(k tokens.Key) tokens.Key { k.Environment.Stage = "sandbox"; return k } }},
	"begins versions again":    {"Versions", func(m *mutant) { m.amnesia = true }},
	"commits without a lease":  {"Commit", func(m *mutant) { m.reckless = true }},
	"loses updates":            {"NoUpdateIsLost", func(m *mutant) { m.reckless, m.owner = true, func(string) string { return "x" } }},
	"knows one owner":          {"Lease", func(m *mutant) { m.owner = func(string) string { return "x" } }},
	"folds owners":             {"Lease", func(m *mutant) { m.owner = strings.ToLower }},
	"ends leases early":        {"LeaseEnds", func(m *mutant) { m.ttl = func(d time.Duration) time.Duration { return d / 10 } }},
	"keeps whole seconds":      {"Tokens", func(m *mutant) { m.token = func(t *oauth.Token) { t.ExpiresAt = t.ExpiresAt.Truncate(time.Second) } }},
	"cuts long secrets": {"Tokens", func(m *mutant) {
		m.token = func(t *oauth.Token) {
			text := t.RefreshToken.Reveal()
			t.RefreshToken = api.NewSecret(text[:min(len(text), 60_000)])
		}
	}},
	"forgets a field":               {"SaveAndLoad", func(m *mutant) { m.token = func(t *oauth.Token) { t.UsedAt = time.Time{} } }},
	"ignores the context":           {"EndedContext", func(m *mutant) { m.ctx = context.WithoutCancel }},
	"releases for everyone":         {"Release", func(m *mutant) { m.generous = true }},
	"answers nothing with nothing":  {"NothingIsThere", func(m *mutant) { m.polite = true }},
	"claims without leases":         {"ClaimDue", func(m *mutant) { m.loose = true }},
	"claims without leases, raced":  {"ClaimDueRaces", func(m *mutant) { m.loose = true }},
	"postpones no record":           {"Postpone", func(m *mutant) { m.loose = true }},
	"brings back who was deleted":   {"ReplayDelete", func(m *mutant) { m.reckless = true }},
	"lets an old refresh overwrite": {"ReplaySave", func(m *mutant) { m.reckless = true }},
	"deletes whatever there is":     {"DeleteVersion", func(m *mutant) { m.hasty = true }},
	"looks before it deletes":       {"DeleteAmongSaves", func(m *mutant) { m.careless = true }},
	"saves over every version":      {"SaveVersion", func(m *mutant) { m.hasty = true }},
	"looks before it saves":         {"SaveVersionRaces", func(m *mutant) { m.careless = true }},
	"loses replaced grants":         {"SaveAndLoad", func(m *mutant) { m.token = func(t *oauth.Token) { t.Replaced = nil } }},
	"forgets who has moved":         {"ListOfClinics", func(m *mutant) { m.sedentary = true }},
	"write checks end leases":       {"CheckWrite", func(m *mutant) { m.clumsy = true }},
	"frees flows of the dead":       {"FlowClaimExpires", func(m *mutant) { m.eager = true }},
	"ends flows for everyone":       {"Flow", func(m *mutant) { m.meddling = true }},
	"refreshes twice":               {"Replay/immediate", func(m *mutant) { m.owner = func(string) string { return "x" } }},
}

// mutant is a memory store that does one thing wrong.
type mutant struct {
	*tokens.MemoryStore
	key   func(tokens.Key) tokens.Key
	owner func(string) string
	ttl   func(time.Duration) time.Duration
	token func(*oauth.Token)
	ctx   func(context.Context) context.Context

	amnesia, reckless, generous, polite, loose, hasty, careless, sedentary, clumsy, eager, meddling bool
	last                                                                                            tokens.Lease
	claim                                                                                           tokens.FlowClaim
}

func newMutant(breaks func(*mutant)) *mutant {
	m := &mutant{
		MemoryStore: tokens.NewMemoryStore(),
		key:         func(k tokens.Key) tokens.Key { return k }, owner: func(s string) string { return s },
		ttl: func(d time.Duration) time.Duration { return d }, token: func(*oauth.Token) {},
		ctx: func(ctx context.Context) context.Context { return ctx },
	}
	breaks(m)
	return m
}

func fold(change func(string) string) func(tokens.Key) tokens.Key {
	return func(k tokens.Key) tokens.Key {
		k.User = change(k.User)
		return k
	}
}

func (m *mutant) lease(l tokens.Lease) tokens.Lease {
	l.Key = m.key(l.Key)
	if l.Owner != "" {
		l.Owner = m.owner(l.Owner)
	}
	return l
}

func (m *mutant) Load(ctx context.Context, key tokens.Key) (tokens.Record, error) {
	record, err := m.MemoryStore.Load(m.ctx(ctx), m.key(key))
	if m.polite && err != nil {
		return tokens.Record{}, nil
	}
	record.Key = key
	return record, err
}

func (m *mutant) Save(ctx context.Context, key tokens.Key, token oauth.Token) (tokens.Record, error) {
	m.token(&token)
	token.Environment = m.key(key).Environment
	record, err := m.MemoryStore.Save(m.ctx(ctx), m.key(key), token)
	record.Key = key
	return record, err
}

func (m *mutant) SaveVersion(ctx context.Context, key tokens.Key, version int64, token oauth.Token) (tokens.Record, error) {
	switch {
	case m.hasty:
		return m.Save(ctx, key, token)
	case m.careless:
		if record, _ := m.Load(ctx, key); record.Version != version {
			return tokens.Record{}, tokens.ErrConflict
		}
		time.Sleep(time.Millisecond)
		return m.Save(ctx, key, token)
	}
	m.token(&token)
	token.Environment = m.key(key).Environment
	record, err := m.MemoryStore.SaveVersion(m.ctx(ctx), m.key(key), version, token)
	record.Key = key
	return record, err
}

func (m *mutant) DeleteVersion(ctx context.Context, key tokens.Key, version int64) error {
	record, err := m.Load(m.ctx(ctx), key)
	switch {
	case m.amnesia:
		m.MemoryStore = tokens.NewMemoryStore()
		return nil
	case m.hasty && err == nil:
		version = record.Version
	case m.careless && err == nil:
		if record.Version != version {
			return tokens.ErrConflict
		}
		time.Sleep(time.Millisecond)
		record, _ = m.Load(ctx, key)
		version = record.Version
	}
	return m.MemoryStore.DeleteVersion(m.ctx(ctx), m.key(key), version)
}

func (m *mutant) CheckWrite(ctx context.Context) error {
	if m.clumsy {
		return m.MemoryStore.Release(ctx, m.last)
	}
	return m.MemoryStore.CheckWrite(m.ctx(ctx))
}

func (m *mutant) Lease(ctx context.Context, lease tokens.Lease, ttl time.Duration) (tokens.Record, error) {
	if m.generous || m.clumsy {
		m.last = lease
	}
	record, err := m.MemoryStore.Lease(m.ctx(ctx), m.lease(lease), m.ttl(ttl))
	record.Key = lease.Key
	return record, err
}

func (m *mutant) Commit(ctx context.Context, lease tokens.Lease, token oauth.Token) (tokens.Record, error) {
	if m.reckless {
		time.Sleep(time.Millisecond) // a memory is too quick for others to come between
		return m.Save(ctx, lease.Key, token)
	}
	m.token(&token)
	if m.sedentary {
		record, _ := m.Load(ctx, lease.Key)
		token.Clinic = record.Token.Clinic
	}
	return m.MemoryStore.Commit(m.ctx(ctx), m.lease(lease), token)
}

func (m *mutant) Release(ctx context.Context, lease tokens.Lease) error {
	if m.generous {
		lease = m.last
	}
	return m.MemoryStore.Release(m.ctx(ctx), m.lease(lease))
}

func (m *mutant) ClaimDue(ctx context.Context, due tokens.Due) ([]tokens.Record, error) {
	claimed, err := m.MemoryStore.ClaimDue(ctx, due)
	for _, record := range claimed {
		if m.loose {
			_ = m.MemoryStore.Release(ctx, tokens.Lease{Key: record.Key, Version: record.Version, Owner: due.Owner})
		}
	}
	return claimed, err
}

func (m *mutant) ClaimFlow(ctx context.Context, claim tokens.FlowClaim, ttl time.Duration) (string, error) {
	result, err := m.MemoryStore.ClaimFlow(ctx, claim, ttl)
	if m.eager && errors.Is(err, tokens.ErrNoResult) {
		return "", nil
	}
	if err == nil && result == "" {
		m.claim = claim
	}
	return result, err
}

func (m *mutant) EndFlow(ctx context.Context, claim tokens.FlowClaim, result string) error {
	if m.meddling {
		claim = m.claim
	}
	return m.MemoryStore.EndFlow(ctx, claim, result)
}

func (m *mutant) Postpone(ctx context.Context, lease tokens.Lease, until time.Time) error {
	if m.loose {
		return m.MemoryStore.Release(ctx, lease)
	}
	return m.MemoryStore.Postpone(ctx, lease, until)
}

func TestMutant(t *testing.T) { //nolint:paralleltest // its subtests are
	name := os.Getenv(mutantVariable)
	if name == "" {
		t.Skip("TestSuiteFindsMistakes runs it")
	}
	storetest.Run(t, func(*testing.T) func() tokens.Store {
		store := newMutant(mutants[name].breaks)
		return func() tokens.Store { return store }
	})
}

// TestSuiteFindsMistakes holds that the suite is worth passing.
func TestSuiteFindsMistakes(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for name, mutant := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := append([]string{"TestMutant"}, strings.Split(mutant.foundBy, "/")...)
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=5m", "-test.run=^"+strings.Join(path, "$/^")+"$")
			command.Env = append(slices.Clone(os.Environ()), mutantVariable+"="+name)
			output, err := command.CombinedOutput()
			require.Error(t, err, "the suite is content with a store that %s", name)
			assert.Contains(t, string(output), "TestMutant/"+mutant.foundBy)
		})
	}
}
