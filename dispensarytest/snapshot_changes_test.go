package dispensarytest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// saved is a snapshot as it is written.
func saved(t testing.TB, snap *Snapshot) string {
	t.Helper()
	var file strings.Builder
	require.NoError(t, snap.Save(&file))
	return file.String()
}

// Whatever happens, what is loaded is what was saved, byte by byte; and two snapshots
// are the same exactly if nothing has happened between them.
func TestSnapshotsAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	b, refresh := busy(t, WithWorldSize(model.WorldSize{Patients: 40, Products: 300}))
	first := b.fake.Snapshot()
	last := first
	for _, step := range []struct {
		name   string
		happen func()
	}{
		{"people", b.oneOfEachButKeys},
		{"time", func() { b.fake.Clock().Advance(time.Hour) }},
		{"a call", func() { b.send("POST", "/clinic/patients", someone()).ok(201) }},
		{"a cart", func() {
			b.send("POST", "/clinic/treatment_plans/"+b.fake.Plans.All()[1].ID+"/in_office_checkout", nil).ok(201)
		}},
		{"an address", b.swapAddresses},
		{"a refresh", func() { b.renew(refresh).ok(200) }},
		{"a code", func() { b.code(model.User{}) }},
		{"an endpoint", func() { require.NoError(t, b.fake.Webhooks.Register("http://127.0.0.1:1/")) }},
		{"a reading", func() { require.NoError(t, b.fake.SetBehavior(ProbeBeforeEach)) }},
		{"a revocation", func() { b.fake.tokens.Revoke(b.token, &behavior.Set{RevokePair: true}) }},
		{"a reset", b.fake.Reset},
		{"other people", b.oneOfEachButKeys}, // whose ids are those of before
		{"the start", func() { b.fake.Restore(first) }},
		{"thirty days", func() { b.fake.Clock().Advance(store.Retention); b.oneOfEachButKeys() }},
		{"a key", func() { _, err := b.fake.Clinics.RevokeKey(b.fake.ClinicKey()); require.NoError(t, err) }},
		{"an expiry", func() { require.NoError(t, b.fake.Tokens.Expire(b.token)) }},
		{"the end of all tokens", b.fake.Tokens.InvalidateAll},
	} {
		step.happen()
		b.fake.Clock().Advance(0) // what is on its way arrives
		b.get("/clinic")          // a token is told to have been used
		now := b.fake.Snapshot()
		assert.False(t, now.Same(last), step.name)
		b.get("/clinic")
		assert.True(t, b.fake.Snapshot().Same(now), step.name)
		last = now
		loaded, err := LoadSnapshot(strings.NewReader(saved(t, now)))
		require.NoError(t, err, step.name)
		require.Equal(t, saved(t, now), saved(t, loaded), step.name)
		there := start(t, WithInMemory(), WithSnapshot(loaded)).fake
		require.Equal(t, bytesOf(partsOf(b.fake).store.World), bytesOf(partsOf(there).store.World), step.name)
	}
}

// swapAddresses gives a person the address that another one gave up.
func (b *browser) swapAddresses() {
	one, other := b.fake.Patients.All()[1], b.fake.Patients.All()[2]
	_, _, err := b.fake.Patients.Edit(one.ID, model.PatientChange{Email: new("elsewhere@example.org")})
	require.NoError(b.t, err)
	_, _, err = b.fake.Patients.Edit(other.ID, model.PatientChange{Email: &one.Email})
	require.NoError(b.t, err)
}

// A snapshot has each delivery as it stands, whatever has changed it.
func TestSnapshotsHaveDeliveriesAsTheyStand(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	var b *browser
	b, hook := hooked(t, func(_ int, w http.ResponseWriter, challenge string) {
		b.asTheyStand() // in the middle of an attempt, too
		w.WriteHeader(status)
		acknowledge(w, challenge)
	}, WithBehavior(ResumeAfterEnableResumed))
	for _, step := range []struct {
		fault  model.Effect
		status int
		after  time.Duration
	}{
		{"", 200, 0}, {model.DeliveryRepeated, 200, 0}, {model.DeliveryLost, 200, 0}, {model.DeliveryReordered, 200, 0}, {"", 200, time.Minute},
		{"", 500, time.Minute}, {"", 410, time.Hour}, {"", 200, time.Hour},
	} {
		status = step.status
		if step.fault != "" {
			b.fake.Fault(model.Fault{Effect: step.fault, Times: 1})
		}
		b.place()
		b.place()
		require.NoError(t, b.fake.Webhooks.Enable())
		b.asTheyStand()
		b.fake.Clock().Advance(step.after)
		b.asTheyStand()
	}
	assert.NotEmpty(t, hook.all())
}

// asTheyStand compares a snapshot with the list of a moment in which nothing
// changed: deliveries go on while it looks.
func (b *browser) asTheyStand() {
	b.t.Helper()
	for listed := b.fake.Webhooks.Deliveries(); ; {
		var kept []model.Delivery
		for d := range worldOf(b.fake.Snapshot()).sender.Deliveries.All() {
			kept = append(kept, d.Delivery)
		}
		again := b.fake.Webhooks.Deliveries()
		if assert.ObjectsAreEqual(listed, again) {
			assert.Equal(b.t, listed, kept)
			return
		}
		listed = again
	}
}

// A file holds what has happened, and not what its seed and size make.
func TestSnapshotsOfLargeWorldsAreSmall(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	fake := New(t, WithInMemory(), WithWorldSize(model.WorldSize{Patients: 1000, Products: 1000, Orders: 5000}))
	_, _, err := fake.Orders.Place(fake.Patients.All()[500].ID, model.NewOrder{})
	require.NoError(t, err)
	assert.Less(t, len(saved(t, fake.Snapshot())), 10_000)
}

// The worlds that are generated are part of the file's version: a file that another
// generator's world is missing in would be read wrongly.
func TestGeneratedWorldsHaveAVersion(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	for _, region := range []model.Region{model.UnitedStates, model.Canada} {
		w := newWorld(settings{seed: 2, region: region, size: model.WorldSize{Clinics: 3, Patients: 60, Products: 100, Plans: 40, Orders: 80}})
		fmt.Fprint(sum, bytesOf(w.Base))
	}
	assert.Equal(t, generatedWorlds, fmt.Sprintf("%d %x", snapshotVersion, sum.Sum(nil)[:8]),
		"count snapshotVersion up, and say here what it makes now")
}

const generatedWorlds = "5 cf1b09da36d37783"
