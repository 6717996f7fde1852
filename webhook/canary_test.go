package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// marked stands for patient data.
const marked = "Zaphod-Marked"

// loggers writes every line in every form that a program may choose.
func loggers(b *bytes.Buffer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(b, options), slog.NewJSONHandler(b, options)))
}

// say prints a value in every way.
func say(b *bytes.Buffer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(b, verb+"\n", v)
	}
	loggers(b).Info("said", "value", v)
}

// silent fails if patient data, or a secret, can be read in what was printed.
func silent(t *testing.T, printed string) {
	t.Helper()
	require.NotEmpty(t, printed)
	for _, word := range []string{marked, secret, challenge} {
		for _, form := range []string{word, fmt.Sprintf("%x", word), strings.Trim(fmt.Sprint([]byte(word)), "[]")} {
			if i := strings.Index(printed, form); i >= 0 {
				t.Errorf("%q is printed after %q", form, printed[max(0, i-200):i])
			}
		}
	}
}

func TestHandlerPrintsNoPatientData(t *testing.T) {
	t.Parallel()
	patient := `{"event":{"id":"evt_1","type":"patient.updated","data":{"patient":{"first_name":"` + marked + `"}}}}`
	var out bytes.Buffer
	for _, inbox := range []webhook.Inbox{nil,
		inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
			return webhook.Receipt{}, fmt.Errorf("cannot store %v", d)
		}),
		inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) { panic(string(d.Body)) }),
		inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
			panic(errors.New(string(d.Body)))
		}),
	} {
		r := newFixture(t, func(c *webhook.HandlerConfig) {
			c.Logger = loggers(&out)
			if inbox != nil {
				c.Inbox = inbox
			}
			say(&out, *c)
		})
		for _, body := range []string{patient, patient, patient + marked, `{"` + marked + `":1}`, marked} {
			for _, header := range []string{sign(secret, now, body), sign("other", now, body), "", "t=" + marked, sign(secret, now.Add(time.Hour), body)} {
				r.serve(t, request(http.MethodPost, header, body))
				say(&out, r.last())
				say(&out, r.last().Err)
			}
		}
		for _, d := range r.accepted {
			say(&out, d)
			say(&out, &d)
			say(&out, struct{ D webhook.Delivery }{d})
		}
		say(&out, r.Handler)
	}
	say(&out, newVerifier(t, now, secret))
	silent(t, out.String())
}

func TestMemoryInboxPrintsNoPatientData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		router := &webhook.Router{}
		router.OnPatientUpdated(func(_ context.Context, e events.PatientEvent) error {
			if e.ID == "panics" {
				panic(e.Data.FirstName)
			}
			return fmt.Errorf("%s: %w", e.Data.FirstName, errors.New(e.Data.FirstName))
		})
		m, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
			Handle: router.Dispatch, Workers: 1, Retry: webhook.RetryPolicy{MaxAttempts: 2}, Logger: loggers(&out),
			Observer: webhook.Observer{AttemptEnd: func(_ context.Context, a webhook.Attempt) {
				say(&out, a)
				var caught webhook.PanicError
				if errors.As(a.Err, &caught) {
					assert.Equal(t, marked, caught.Value())
					assert.Contains(t, caught.Stack(), "canary_test.go")
					say(&out, caught)
				}
			}},
		}})
		require.NoError(t, err)
		for id, patient := range map[string]string{"fails": `{"id":"pa_1","first_name":"` + marked + `"}`, "panics": `{"id":"pa_1","first_name":"` + marked + `"}`, "bad": `{"first_name":["` + marked + `"]}`} {
			_, err := m.Accept(t.Context(), webhook.Delivery{
				Key:  webhook.Key{Environment: sandbox, EventID: id},
				Type: events.PatientUpdated,
				Body: []byte(`{"event":{"id":"` + id + `","type":"patient.updated","data":{"patient":` + patient + `}}}`),
			})
			require.NoError(t, err)
		}
		err = m.Close(t.Context())
		var unfinished *memoryinbox.UnfinishedError
		require.ErrorAs(t, err, &unfinished)
		require.Len(t, unfinished.Deliveries, 3)
		say(&out, err)
		for letter, err := range m.DeadLetters(t.Context()) {
			require.NoError(t, err)
			say(&out, letter)
		}
		say(&out, m)
		silent(t, out.String())
		for _, want := range []string{"error of type *errors.errorString", "panic with a value of type string", "field first_name"} {
			assert.True(t, strings.Contains(out.String(), want), want)
		}
	})
}
