package enginetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// sealing tests that storage, logs and printed values contain no patient data.
var sealing = map[string]func(*harness){
	"Unseen":     unseen,
	"WithoutKey": sealedWithoutKey,
	"RetiresKey": retiresKey,
}

// unseen searches the storage and the logs for patient data of waiting, failed, dead and
// handled events.
func unseen(r *harness) {
	gate := make(chan struct{})
	var out logtest.Buffer
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
	}, slow, func(w *webhook.Work) {
		w.Logger = logtest.NewLogger(&out)
		w.Order, w.Stale = webhook.ByPatient, webhook.StalePolicyReport
	})
	of := func(id string) webhook.Delivery { return patient(id, id+canary, 1) }
	r.accept(inbox, of("waits"), of("fails"), of("panics"), of("dies"), of("done"))
	r.waitFor(webhook.ResultFailed, of("fails"), of("panics"))
	r.waitFor(webhook.ResultDead, of("dies"))
	r.waitFor(webhook.ResultHandled, of("done"))
	r.search("while events wait")
	for _, deadLetter := range r.deadLetters(inbox) {
		require.Contains(r, string(deadLetter.Body), canary)
		say(&out, deadLetter)
	}
	close(gate)
	r.waitFor(webhook.ResultHandled, of("waits"))
	r.replay(inbox, of("dies"))
	r.search("after all events were handled")
	r.mu.Lock()
	for _, a := range r.attempts {
		say(&out, a)
		say(&out, a.Reason())
	}
	r.mu.Unlock()
	say(&out, inbox)
	r.close(inbox)
	assert.NotContains(r, out.String(), canary)
	assert.Contains(r, out.String(), `"outcome":"dead"`)
}

// search fails the test if the storage contains the canary, in clear text or in a usual
// encoding.
func (r *harness) search(when string) {
	r.Helper()
	if r.storage.Dump == nil {
		return
	}
	stored := r.storage.Dump(r.T)
	require.NotEmpty(r, stored)
	forms := []string{canary, hex.EncodeToString([]byte(canary))}
	for skip := range 3 { // a base64 text depends on its offset within three bytes
		text := base64.RawStdEncoding.EncodeToString([]byte(canary[skip:]))
		forms = append(forms, text[:len(text)-2])
	}
	lower := bytes.ToLower(stored)
	for _, form := range forms {
		assert.False(r, bytes.Contains(lower, bytes.ToLower([]byte(form))), "the storage contains patient data %s, as %q", when, form)
	}
}

// say prints a value with every verb.
func say(w io.Writer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(w, verb+"\n", v)
	}
}

// sealedWithoutKey removes the encryption key of an event. The event must wait until the key
// is back.
func sealedWithoutKey(r *harness) {
	right, wrong := r.ring(r.key("right")), r.ring(r.key("wrong"))
	d := patient("evt_1", "pa_1", 1)
	inbox, _ := r.resealable(right, dieAtOnce)
	die(r, inbox, d)
	r.replay(inbox, d)
	r.waitAttempts(2, d)
	r.close(inbox)

	inbox, _ = r.resealable(wrong, succeed)
	r.replay(inbox, d)
	r.waitAttempts(2+maxAttempts, d)
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

// reencrypter is an engine with the method Reseal.
type reencrypter interface {
	Reseal(ctx context.Context) (int, error)
}

// resealable opens an engine that encrypts with aead. It skips the test if the storage cannot.
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

// retiresKey re-encrypts dead letters, and running events whose attempts later succeed, fail
// or are returned. It then decrypts all of them without the old key.
func retiresKey(r *harness) {
	first, second := r.key("first"), r.key("second")
	deadLetters := numbered(150) // several pages
	busy, dying, returned := patient("busy", "pa_busy", 1), patient("dying", "pa_dying", 2), patient("returned", "pa_returned", 3)
	running := []webhook.Delivery{busy, dying, returned}
	all := append(deadLetters, running...)
	inbox, resealer := r.resealable(r.ring(first), dieAtOnce)
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultDead, all...)
	before := contents(r.deadLetters(inbox))
	r.reseals(resealer, 0, "all keys are current")
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
	r.reseals(resealer, len(all), "all events use the old key")
	r.reseals(resealer, 0, "all events use the current key")
	close(gate)
	r.waitFor(webhook.ResultHandled, busy)
	r.waitAttempts(2, dying)
	ended, cancel := context.WithCancel(r.Context())
	cancel()
	require.NoError(r, inbox.Close(ended))
	r.forget(inbox)

	inbox, _ = r.resealable(r.ring(second), succeed)
	r.waitFor(webhook.ResultHandled, returned)
	assert.Equal(r, []webhook.Result{webhook.ResultDead, webhook.ResultHandled}, r.results(busy), "Reseal must not change the result")
	assert.Equal(r, []webhook.Result{webhook.ResultDead, webhook.ResultDead}, r.results(dying), "Reseal must not change the result")
	delete(before, busy.Key)
	delete(before, returned.Key)
	assert.Equal(r, before, contents(r.deadLetters(inbox)), "bodies and errors decrypt without the old key")
}

// contents returns the decrypted texts of dead letters.
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
