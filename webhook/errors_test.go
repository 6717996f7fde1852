package webhook_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// A reason must not contain the text that a handler adds to a known error.
func TestReasonQuotesOnlySentinels(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.DeadlineExceeded, webhook.ErrAbandoned, webhook.ErrBodyLost, events.ErrMalformed} {
		a := webhook.Attempt{Err: fmt.Errorf("%s: %w", marked, err)}
		assert.Equal(t, err.Error(), a.Reason())
	}
}

// Events are counted by reason, so errors with one cause must have one reason.
func TestReasonIdentifiesCause(t *testing.T) {
	t.Parallel()
	call := func(requestID string) error {
		return &api.Error{Operation: "orders.get", Method: "GET", Route: "/orders/{id}", StatusCode: 503, RequestID: requestID}
	}
	for want, errs := range map[string][2]error{
		"dispensary: orders.get GET /orders/{id}: 503 Service Unavailable": {call("r-1"), fmt.Errorf("%s: %w", marked, call("r-2"))},
		"events: data cannot be decoded, field first_name": {
			&events.DataError{Type: events.TypePatientCreated, ID: "evt_1", Field: "first_name", Err: events.ErrBadData},
			&events.DataError{Type: events.TypePatientUpdated, ID: "evt_2", Field: "first_name", Err: events.ErrBadData},
		},
	} {
		for _, err := range errs {
			assert.Equal(t, want, webhook.Attempt{Err: err}.Reason())
		}
	}
	assert.Equal(t, "r-1", webhook.Attempt{Err: fmt.Errorf("%s: %w", marked, call("r-1"))}.RequestID())
	assert.Empty(t, webhook.Attempt{Err: errors.New("r-1")}.RequestID())
}

// chartError is an error of a program. Its text repeats patient data.
type chartError struct {
	patient string
	err     error
}

func (e *chartError) Error() string { return "no chart of " + e.patient }
func (e *chartError) Unwrap() error { return e.err }

type sqlError string

func (e sqlError) Error() string    { return marked }
func (e sqlError) SQLState() string { return string(e) }

// numberedError is like an error of SQLite.
type numberedError int

func (e numberedError) Error() string { return marked }
func (e numberedError) Code() int     { return int(e) }

func TestReasonNamesErrors(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("%s: %w", marked, err) }
	for want, errs := range map[string][]error{
		"unnamed error: see webhook.WithReason": {
			errors.New(marked), wrap(errors.New(marked)), wrap(tokens.ErrUndecided), errors.Join(errors.New(marked), wrap(errDown)), fmt.Errorf("%s", marked),
		},
		"error of type *webhook_test.chartError":                             {&chartError{marked, nil}, wrap(&chartError{marked, errDown}), errors.Join(errDown, &chartError{marked, nil})},
		"error of type *webhook_test.chartError: sql: no rows in result set": {wrap(&chartError{marked, wrap(sql.ErrNoRows)})},
		"sql: no rows in result set":                                         {sql.ErrNoRows, wrap(sql.ErrNoRows)},
		"sql: database is closed":                                            {errors.New("sql: database is closed")},
		"driver: bad connection":                                             {wrap(driver.ErrBadConn)},
		"EOF":                                                                {wrap(io.EOF)},
		"unexpected EOF":                                                     {wrap(io.ErrUnexpectedEOF)},
		"file does not exist":                                                {wrap(os.ErrNotExist)},
		"error of type *fs.PathError: file does not exist":                   {&os.PathError{Op: "open", Path: marked, Err: syscall.ENOENT}},
		"context deadline exceeded":                                          {wrap(context.DeadlineExceeded)},
		"error of type *url.Error: context canceled":                         {&url.Error{Op: "Get", URL: marked, Err: context.Canceled}},
		"error of type *net.OpError: connection refused":                     {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}},
		"error of type *net.DNSError: timeout":                               {&net.DNSError{Name: marked, IsTimeout: true}},
		"error of type webhook_test.sqlError: SQLSTATE 23505":                {wrap(sqlError("23505"))},
		"error of type webhook_test.sqlError":                                {sqlError(marked)},
		"error of type webhook_test.numberedError: code 1299":                {wrap(numberedError(1299))},
		"error of type *accounts.ClinicError: user must authorize again":     {&accounts.ClinicError{ClinicID: "cl_1"}, wrap(&accounts.ClinicError{ClinicID: "cl_2"})},
		"error of type *tokens.StoreError":                                   {&tokens.StoreError{Op: "Load", Key: tokenstore.Key{User: "a"}}},
		"no_chart":                                                           {webhook.WithReason("no_chart", errDown), wrap(webhook.WithReason("no_chart", webhook.WithReason("inner", sql.ErrNoRows)))},
		"permanent: no_chart": {
			webhook.Permanent(webhook.WithReason("no_chart", errDown)), webhook.WithReason("no_chart", webhook.Permanent(errDown)),
			wrap(webhook.Permanent(wrap(webhook.WithReason("no_chart", errDown)))),
		},
		"permanent: error of type *webhook_test.chartError": {webhook.Permanent(&chartError{marked, nil}), &chartError{marked, webhook.Permanent(errDown)}},
	} {
		for n, err := range errs {
			assert.Equal(t, want, webhook.Attempt{Err: err}.Reason(), n)
		}
	}
	assert.Empty(t, webhook.Attempt{}.Reason())
}

// The cause of a failed call can be the error of the program's token source.
func TestReasonOfCallHidesCause(t *testing.T) {
	t.Parallel()
	call := func(cause error) error {
		return apikit.NewError(api.Error{
			Operation: "patients.get", Method: "GET", Route: "/clinic/patients/{id}", RequestID: "r-1", Outcome: api.OutcomeNotSent,
		}, cause, nil, nil)
	}
	const begin = "dispensary: patients.get GET /clinic/patients/{id}: "
	for want, causes := range map[string][]error{
		begin + "request was not sent": {nil, errors.New(marked), fmt.Errorf("%s: %w", marked, errDown)},
		begin + "error of type *accounts.ClinicError: user must authorize again: request was not sent": {
			&accounts.ClinicError{ClinicID: "cl_1"}, &accounts.ClinicError{ClinicID: "cl_2", Users: 3},
		},
		begin + "error of type *tokens.StoreError: request was not sent": {
			&tokens.StoreError{Op: "Load", Key: tokenstore.Key{User: "a"}}, &tokens.StoreError{Op: "Commit", Key: tokenstore.Key{User: "b"}},
		},
		begin + "context deadline exceeded: request was not sent": {fmt.Errorf("%s: %w", marked, context.DeadlineExceeded)},
	} {
		for _, cause := range causes {
			assert.Equal(t, want, webhook.Attempt{Err: fmt.Errorf("%s: %w", marked, call(cause))}.Reason())
		}
	}
	assert.Equal(t, "no_token", webhook.Attempt{Err: call(webhook.WithReason("no_token", errDown))}.Reason())
}

func TestWithReasonSetsCode(t *testing.T) {
	t.Parallel()
	require.NoError(t, webhook.WithReason("no_chart", nil))
	err := webhook.WithReason("no_chart", webhook.Permanent(&chartError{marked, errDown}))
	require.ErrorIs(t, err, errDown)
	var chart *chartError
	require.ErrorAs(t, err, &chart)
	assert.True(t, webhook.IsPermanent(err))
	assert.Equal(t, chart.Error(), err.Error())
	assert.Equal(t, "no_chart", webhook.ReasonCode(err))
	assert.Empty(t, webhook.ReasonCode(errDown))
	assert.Equal(t, strings.Repeat("a", 64), webhook.ReasonCode(webhook.WithReason(strings.Repeat("a", 64), errDown)))
	for _, code := range []string{"", "Jane Doe", "no chart", "noChart", "é", "a\n", strings.Repeat("a", 65)} {
		assert.Equal(t, errDown, webhook.WithReason(code, errDown), code)
	}
}

// The numbers in a runtime error differ from event to event.
func TestReasonOfPanicHasNoNumbers(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for n := range 3 {
		err := safecall.Call(func() error { return make([]error, n)[n+1] })
		require.ErrorIs(t, err, safecall.ErrPanic)
		texts[webhook.Attempt{Err: err}.Reason()] = true
	}
	assert.Equal(t, map[string]bool{"webhook: panic: runtime error: index out of range [N] with length N": true}, texts)
}

// Each wait is between half and all of its bound. Together the waits outlast a night.
func TestRetryPolicyWaits(t *testing.T) {
	t.Parallel()
	w, err := webhook.Work{Handle: succeed}.WithDefaults()
	require.NoError(t, err)
	total, most := time.Duration(0), time.Second
	for attempt := 1; attempt < w.Retry.MaxAttempts; attempt++ {
		wait := w.Retry.Wait(attempt)
		assert.LessOrEqual(t, wait, most)
		assert.GreaterOrEqual(t, wait, most/2)
		total, most = total+wait, min(2*most, time.Hour)
	}
	assert.Greater(t, total, 6*time.Hour)
	assert.Less(t, total, 14*time.Hour)
}

func TestPermanentMarksError(t *testing.T) {
	t.Parallel()
	require.NoError(t, webhook.Permanent(nil))
	assert.False(t, webhook.IsPermanent(nil))
	assert.False(t, webhook.IsPermanent(errDown))
	err := webhook.Permanent(errDown)
	require.ErrorIs(t, err, errDown)
	require.EqualError(t, err, errDown.Error())
	assert.True(t, webhook.IsPermanent(fmt.Errorf("x: %w", err)))
	assert.True(t, webhook.IsPermanent(events.ErrNoEvent))
	assert.True(t, webhook.IsPermanent(fmt.Errorf("x: %w", &api.EnsureError{Reason: api.EnsureReasonAltered})))
	assert.False(t, webhook.IsPermanent(&api.EnsureError{Reason: api.EnsureReasonUnknown}))
	assert.Equal(t, "permanent: unnamed error: see webhook.WithReason", webhook.Attempt{Err: err}.Reason())
}
