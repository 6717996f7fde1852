package enginetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// sealing tests what is seen of patient data in storage and logs.
var sealing = map[string]func(*harness){
	"AtRest":     sealedAtRest,
	"Logged":     nothingLogged,
	"WithoutKey": sealedWithoutKey,
}

// sealedAtRest looks for patient data while events wait, are handled, have
// failed, are dead letters, and are done.
func sealedAtRest(r *harness) {
	r.need(r.storage.Dump != nil, "Dump")
	gate := make(chan struct{})
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch e.ID {
		case "fails":
			return errDown
		case "dies":
			return webhook.Permanent(errDown)
		case "panics":
			panic(canary)
		case "waits":
			return until(ctx, gate)
		}
		return nil
	}, func(w *webhook.Work) {
		w.Retry.BackOff, w.Retry.MaxBackOff = time.Hour, time.Hour
		if r.storage.Ordered {
			w.Order, w.Stale = webhook.ByPatient, webhook.StaleReport
		}
	})
	of := func(id string) webhook.Delivery { return patient(id, id+canary, 1) }
	r.accept(inbox, of("waits"), of("fails"), of("panics"), of("dies"), of("done"))
	r.waitFor(webhook.ResultFailed, of("fails"), of("panics"))
	r.waitFor(webhook.ResultDead, of("dies"))
	r.waitFor(webhook.ResultHandled, of("done"))
	r.search("while events wait")
	close(gate)
	r.waitFor(webhook.ResultHandled, of("waits"))
	r.replay(inbox, of("dies"))
	r.search("when they are done")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		assert.NotContains(r, fmt.Sprintf("%v %+v %#v %s", a, a, a, a.Reason()), canary)
	}
}

// search looks for the canary in everything that is stored, as it is and in the
// usual encodings.
func (r *harness) search(when string) {
	r.Helper()
	stored := r.storage.Dump(r.T)
	require.NotEmpty(r, stored)
	forms := []string{canary, hex.EncodeToString([]byte(canary))}
	for skip := range 3 { // a base64 text depends on where in three bytes it begins
		text := base64.RawStdEncoding.EncodeToString([]byte(canary[skip:]))
		forms = append(forms, text[:len(text)-2])
	}
	lower := bytes.ToLower(stored)
	for _, form := range forms {
		assert.False(r, bytes.Contains(lower, bytes.ToLower([]byte(form))), "patient data is stored %s, as %q", when, form)
	}
}

// say prints a value in every way.
func say(w io.Writer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(w, verb+"\n", v)
	}
}

// nothingLogged looks for patient data in logs, and in printed attempts and dead letters.
func nothingLogged(r *harness) {
	var out lockedBuffer
	inbox := r.open(func(_ context.Context, e events.Event) error {
		if e.ID == "panics" {
			panic(canary)
		}
		return fmt.Errorf("no such patient: %s", canary)
	}, func(w *webhook.Work) {
		w.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	all := []webhook.Delivery{patient("panics", "pa_1", 1), patient("fails", "pa_2", 2)}
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultDead, all...)
	for _, deadLetter := range r.deadLetters(inbox) {
		require.Contains(r, string(deadLetter.Body), canary, "the dead letter has it")
		say(&out, deadLetter)
		say(&out, deadLetter.Reason)
	}
	for _, a := range append(r.of(all[0]), r.of(all[1])...) {
		say(&out, a)
		var caught webhook.PanicError
		if errors.As(a.Err, &caught) {
			assert.Equal(r, canary, caught.Value())
			say(&out, caught)
		}
	}
	say(&out, inbox)
	r.close(inbox)
	assert.NotContains(r, out.String(), canary)
	assert.Contains(r, out.String(), `"outcome":"dead"`)
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// sealedWithoutKey has an event wait whose body does not open, until its key is back.
func sealedWithoutKey(r *harness) {
	right, wrong := r.ring(r.key("right")), r.ring(r.key("wrong"))
	d := patient("evt_1", "pa_1", 1)
	inbox, _ := r.resealable(right, giveUp)
	die(r, inbox, d)
	r.replay(inbox, d)
	r.wait("a second attempt", func([]webhook.Attempt) bool { return len(r.ofLocked(d)) == 2 })
	r.close(inbox)

	inbox, _ = r.resealable(wrong, succeed)
	r.replay(inbox, d)
	r.wait("the attempts without the key", func([]webhook.Attempt) bool { return len(r.ofLocked(d)) == 2+maxAttempts })
	for _, a := range r.of(d)[2:] {
		require.ErrorIs(r, a.Err, webhook.ErrBodyLost)
	}
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	assert.Nil(r, deadLetters[0].Body)
	assert.Equal(r, d.Key, deadLetters[0].Key)
	require.ErrorIs(r, deadLetters[0].Err, webhook.ErrBodyLost)
	r.close(inbox)

	inbox, _ = r.resealable(right, succeed)
	r.replay(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
}
