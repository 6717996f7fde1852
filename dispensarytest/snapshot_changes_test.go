package dispensarytest

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// saved is a snapshot as it is written.
func saved(t testing.TB, snap *Snapshot) string {
	t.Helper()
	var file strings.Builder
	require.NoError(t, snap.Save(&file))
	return file.String()
}

// Whatever happens, a snapshot with the changes after it is the snapshot of what came
// of them, byte by byte.
func TestChangesAddUp(t *testing.T) {
	t.Parallel()
	b, refresh := busy(t)
	first := b.fake.Snapshot()
	file, last := bytes.NewBufferString(saved(t, first)), first
	for _, step := range []struct {
		name   string
		happen func()
	}{
		{"people", b.oneOfEachButKeys},
		{"time", func() { b.fake.Clock().Advance(time.Hour) }},
		{"a call", func() { b.send("POST", "/clinic/patients", someone()).ok(201) }},
		{"a refresh", func() { b.renew(refresh).ok(200) }},
		{"a code", func() { b.code(User{}) }},
		{"a reading", func() { require.NoError(t, b.fake.SetReading(SilenceProbe, "before-each")) }},
		{"a revocation", func() { b.fake.tokens.revoke(b.token, &readings{revokePair: true}) }},
		{"a reset", b.fake.Reset},
		{"other people", b.oneOfEachButKeys}, // whose ids are those of before
		{"the start", func() { b.fake.Restore(first) }},
		{"nothing", func() {}},
	} {
		step.happen()
		now := b.fake.Snapshot()
		require.NoError(t, now.SaveChanges(file, last))
		last = now
		loaded, err := LoadSnapshot(bytes.NewReader(file.Bytes()))
		require.NoError(t, err, step.name)
		require.Equal(t, saved(t, now), saved(t, loaded), step.name)
	}
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
	}, WithReading(SilenceResumeAfterEnable, "resumed"))
	for _, step := range []struct {
		fault  Effect
		status int
		after  time.Duration
	}{
		{"", 200, 0}, {DeliveryRepeated, 200, 0}, {DeliveryLost, 200, 0}, {DeliveryReordered, 200, 0}, {"", 200, time.Minute},
		{"", 500, time.Minute}, {"", 410, time.Hour}, {"", 200, time.Hour},
	} {
		status = step.status
		if step.fault != "" {
			b.fake.Fault(Fault{Effect: step.fault, Times: 1})
		}
		b.place()
		b.place()
		require.NoError(t, b.fake.EnableWebhook())
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
	for listed := b.fake.Deliveries(); ; {
		var kept []Delivery
		for d := range b.fake.Snapshot().sender.deliveries.all() {
			kept = append(kept, d.Delivery)
		}
		again := b.fake.Deliveries()
		if assert.ObjectsAreEqual(listed, again) {
			assert.Equal(b.t, listed, kept)
			return
		}
		listed = again
	}
}

func TestNoChangesAreNotWritten(t *testing.T) {
	t.Parallel()
	for _, b := range []*browser{start(t, WithInMemory()), start(t, WithInMemory(), WithClock(frozen()))} {
		b.oneOfEach()
		before := b.fake.Snapshot()
		b.get("/clinic").ok(200)
		var changes bytes.Buffer
		require.NoError(t, b.fake.Snapshot().SaveChanges(&changes, before))
		assert.Empty(t, changes.String())
	}
}

// Few changes of a large world are few bytes.
func TestChangesAreSmall(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory(), WithWorldSize(WorldSize{Patients: 1000, Orders: 5000}))
	before := fake.Snapshot()
	_, _, err := fake.Platform().PlaceOrder(fake.Platform().Patients()[500].ID, NewOrder{})
	require.NoError(t, err)
	var changes bytes.Buffer
	require.NoError(t, fake.Snapshot().SaveChanges(&changes, before))
	assert.Equal(t, 1, strings.Count(changes.String(), "\n"))
	assert.Less(t, changes.Len(), 8000, "%s", changes.String())
}

// What a kill cuts short is left out, wherever it cuts.
func TestALineThatWasCutShort(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	before := fake.Snapshot()
	whole := saved(t, before)
	_, _, err := fake.Platform().RegisterPatient(NewPatient{})
	require.NoError(t, err)
	var changes strings.Builder
	require.NoError(t, fake.Snapshot().SaveChanges(&changes, before))
	size := changes.Len()
	for _, cut := range []int{0, 1, 2, size / 3, size / 2, size - 3, size - 2} { // the last byte ends the line
		loaded, err := LoadSnapshot(strings.NewReader(whole + changes.String()[:cut]))
		require.NoError(t, err)
		require.Equal(t, before.world.patients.len(), loaded.world.patients.len(), fmt.Sprint(cut))
	}
	_, err = LoadSnapshot(strings.NewReader(whole[:len(whole)/2]))
	require.ErrorContains(t, err, "unexpected EOF", "there is nothing before it")
}

// What a stand-alone platform does four times a second.
func BenchmarkSaveChangesOfLargeWorld(b *testing.B) {
	fake := New(b, WithInMemory(), WithWorldSize(LargeWorld()))
	last := fake.Snapshot()
	patients := fake.Platform().Patients()
	written := 0
	for n := 0; b.Loop(); n++ {
		for i := range 125 { // as at 500 events a second
			if _, _, err := fake.Platform().PlaceOrder(patients[(n*125+i)%len(patients)].ID, NewOrder{}); err != nil {
				b.Fatal(err)
			}
		}
		began := time.Now()
		var changes bytes.Buffer
		now := fake.Snapshot()
		if err := now.SaveChanges(&changes, last); err != nil {
			b.Fatal(err)
		}
		last, written = now, written+changes.Len()
		b.ReportMetric(float64(time.Since(began).Microseconds()), "µs/save")
	}
	b.ReportMetric(float64(written)/float64(b.N), "B/save")
}
