package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
)

// marked stands for patient data.
const marked = "Zaphod-Marked"

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
			c.Logger = receivertest.Loggers(&out)
			if inbox != nil {
				c.Inbox = inbox
			}
			receivertest.Say(&out, *c)
		})
		for _, body := range []string{patient, patient, patient + marked, `{"` + marked + `":1}`, marked} {
			for _, header := range []string{sign(secret, now, body), sign("other", now, body), "", "t=" + marked, sign(secret, now.Add(time.Hour), body)} {
				r.serve(t, request(http.MethodPost, header, body))
				receivertest.Say(&out, r.last())
				receivertest.Say(&out, r.last().Err)
			}
		}
		for _, d := range r.accepted {
			receivertest.Say(&out, d)
			receivertest.Say(&out, &d)
			receivertest.Say(&out, struct{ D webhook.Delivery }{d})
		}
		receivertest.Say(&out, r.Handler)
	}
	receivertest.Say(&out, newVerifier(t, now, api.NewSecret(secret)))
	silent(t, out.String())
}
