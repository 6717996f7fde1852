package enginetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/logtest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
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
	var out logtest.Buffer
	inbox := r.open(func(_ context.Context, e events.Event) error {
		if e.ID == "panics" {
			panic(canary)
		}
		return fmt.Errorf("no such patient: %s", canary)
	}, func(w *webhook.Work) {
		w.Logger = logtest.NewLogger(&out)
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

// resealing retires keys.
var resealing = map[string]func(*harness){
	"RetiresAKey": retiresAKey,
	"LostBody":    resealsPastALostBody,
	"NoRotator":   resealsWithoutRotator,
	"Closed":      resealsWhenClosed,
}

// reencrypter is an engine that can replace its key.
type reencrypter interface {
	Reseal(ctx context.Context) (int, error)
}

// resealable opens an engine that seals with aead, if there is one.
func (r *harness) resealable(aead seal.AEAD, handle webhook.HandlerFunc) (engine.Engine, reencrypter) {
	r.Helper()
	r.need(r.storage.OpenSealed != nil && r.storage.Durable, "OpenSealed and Durable")
	inbox, err := r.storage.OpenSealed(r.work(handle), aead)
	require.NoError(r, err)
	r.engines = append(r.engines, inbox)
	encrypting, ok := inbox.(reencrypter)
	require.True(r, ok, "the engine has no method Reseal")
	return inbox, encrypting
}

func (r *harness) key(id string) seal.Key {
	key, err := seal.GenerateKey(id)
	require.NoError(r, err)
	return key
}

func (r *harness) ring(keys ...seal.Key) *seal.KeyRing {
	ring, err := seal.NewKeyRing(keys...)
	require.NoError(r, err)
	return ring
}

// giveUp makes a dead letter of every event.
func giveUp(context.Context, events.Event) error { return webhook.Permanent(errDown) }

// retiresAKey has dead letters, events that are being handled and then succeed, die
// or are given back, sealed anew, and opens them all without the old key.
func retiresAKey(r *harness) {
	first, second := r.key("first"), r.key("second")
	deadLetters := numbered(150) // several pages
	busy, dying, returned := patient("busy", "pa_busy", 1), patient("dying", "pa_dying", 2), patient("returned", "pa_returned", 3)
	running := []webhook.Delivery{busy, dying, returned}
	all := append(deadLetters, running...)
	inbox, resealer := r.resealable(r.ring(first), giveUp)
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultDead, all...)
	before := contents(r.deadLetters(inbox))
	r.reseals(resealer, 0, "no key is old")
	r.close(inbox)

	gate, began := make(chan struct{}), make(chan string, len(running))
	inbox, resealer = r.resealable(r.ring(second, first), func(ctx context.Context, e events.Event) error {
		began <- e.ID
		switch e.ID {
		case "busy":
			return until(ctx, gate)
		case "dying":
			return webhook.Permanent(errors.Join(until(ctx, gate), errDown))
		}
		return until(ctx, nil)
	})
	for _, d := range running {
		r.replay(inbox, d)
		receive(r, began)
	}
	r.reseals(resealer, len(all), "each was sealed with the old key")
	r.reseals(resealer, 0, "nothing is left to do")
	close(gate)
	r.waitFor(webhook.ResultHandled, busy)
	r.wait("the second death", func([]webhook.Attempt) bool { return len(r.ofLocked(dying)) == 2 })
	ended, cancel := context.WithCancel(r.Context())
	cancel()
	require.NoError(r, inbox.Close(ended))
	r.forget(inbox)

	inbox, _ = r.resealable(r.ring(second), succeed)
	r.waitFor(webhook.ResultHandled, returned)
	assert.Equal(r, []webhook.Result{webhook.ResultDead, webhook.ResultHandled}, r.results(busy), "the result is as without it")
	assert.Equal(r, []webhook.Result{webhook.ResultDead, webhook.ResultDead}, r.results(dying), "the result is as without it")
	delete(before, busy.Key)
	delete(before, returned.Key)
	assert.Equal(r, before, contents(r.deadLetters(inbox)), "bodies and errors open without the old key")
}

// contents is what was sealed of dead letters.
func contents(deadLetters []engine.Event) map[webhook.Key]string {
	all := map[webhook.Key]string{}
	for _, deadLetter := range deadLetters {
		all[deadLetter.Key] = fmt.Sprintf("%s\n%s", deadLetter.Body, deadLetter.Err)
	}
	return all
}

func (r *harness) reseals(resealer reencrypter, want int, why string) {
	r.Helper()
	n, err := resealer.Reseal(r.Context())
	require.NoError(r, err)
	assert.Equal(r, want, n, why)
}

// resealsPastALostBody has an event whose key is gone, and one behind it.
func resealsPastALostBody(r *harness) {
	lost, first, second := r.key("lost"), r.key("first"), r.key("second")
	all := numbered(3)
	for i, keys := range []*seal.KeyRing{r.ring(first, lost), r.ring(lost), r.ring(first, lost)} {
		inbox, _ := r.resealable(keys, giveUp)
		die(r, inbox, all[i])
		r.close(inbox)
	}
	inbox, resealer := r.resealable(r.ring(second, first), giveUp)
	n, err := resealer.Reseal(r.Context())
	require.ErrorIs(r, err, webhook.ErrBodyLost)
	assert.Contains(r, err.Error(), all[1].Key.EventID)
	assert.False(r, strings.Contains(err.Error(), canary))
	assert.Equal(r, 2, n, "the others were sealed")
	for _, deadLetter := range r.deadLetters(inbox) {
		if deadLetter.Key == all[1].Key {
			assert.ErrorIs(r, deadLetter.Err, webhook.ErrBodyLost)
		} else {
			assert.NotEmpty(r, deadLetter.Body)
		}
	}
}

func resealsWithoutRotator(r *harness) {
	_, resealer := r.resealable(seal.InsecurePlaintext{}, succeed)
	_, err := resealer.Reseal(r.Context())
	require.ErrorIs(r, err, engine.ErrNoRotator)
}

func resealsWhenClosed(r *harness) {
	inbox, resealer := r.resealable(r.ring(r.key("first")), giveUp)
	die(r, inbox, numbered(1)...)
	r.close(inbox)
	_, err := resealer.Reseal(r.Context())
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
}
