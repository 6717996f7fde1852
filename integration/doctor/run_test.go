package doctor_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// hook calls before with every request to the token endpoint.
type hook struct {
	http.RoundTripper
	before func(body string)
}

func (h hook) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/oauth/token") {
		body, _ := io.ReadAll(r.Body)
		h.before(string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return h.RoundTripper.RoundTrip(r)
}

// The run is canceled during a token refresh. The platform invalidates the old pair at once, so
// the store must contain the new pair.
func TestCanceledRunLosesNoToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dispensarytest.WithBehavior(behavior.RefreshRotationImmediate))
	record, err := f.config.Store.Load(t.Context(), f.key())
	require.NoError(t, err)
	old := record.Token.RefreshToken.Reveal()
	ctx, cancel := context.WithCancel(t.Context())
	f.config.OAuth.Transport = hook{f.config.OAuth.Transport, func(body string) {
		if strings.Contains(body, old) {
			cancel()
		}
	}}
	_, err = doctor.Run(ctx, f.config)
	require.NoError(t, err)
	require.Error(t, ctx.Err(), "a refresh canceled the run")
	record, err = f.config.Store.Load(t.Context(), f.key())
	require.NoError(t, err)
	assert.NotEqual(t, old, record.Token.RefreshToken.Reveal())
	f.requireGood()
}

// NoRefresh leaves the record unchanged, and doctor still reads the delivery log.
func TestNoRefreshKeepsRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.NoRefresh = true
	before, err := f.config.Store.Load(t.Context(), f.key())
	require.NoError(t, err)
	report := f.run()
	after, err := f.config.Store.Load(t.Context(), f.key())
	require.NoError(t, err)
	assert.Equal(t, before.Version, after.Version)
	assert.Equal(t, doctor.StatusPass, row(t, report, "delivery log").Status)

	f.platform.Clock.Advance(3 * time.Hour)
	assert.Equal(t, doctor.StatusSkip, row(t, f.run(), "token refresh").Status, "expired token")
}

func row(t *testing.T, report doctor.Report, name string) doctor.Row {
	t.Helper()
	for _, row := range report.Rows {
		if row.Check == name {
			return row
		}
	}
	require.Fail(t, "no row", name)
	return doctor.Row{}
}

// Checks of unconfigured parts are skipped, and dependent checks too, with the same reason.
func TestUnconfiguredPartsAreSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.Store, f.config.User, f.config.Inbox, f.config.Webhook = nil, "", nil, doctor.Webhook{}
	f.config.SecretFiles, f.config.Databases = nil, nil
	report := f.run()
	assert.Equal(t, 5, report.Count(doctor.StatusPass), "rows that need only the application")
	assert.Equal(t, len(report.Rows)-5, report.Count(doctor.StatusSkip))
	assert.Equal(t, "no token store outside of memory is configured", row(t, report, "store").Seen)
	assert.Equal(t, "no token store outside of memory is configured", row(t, report, "store lease").Seen, "the cause, not the name of the previous row")
}

// If no user is given, doctor selects an active user.
func TestActiveUserIsSelected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.User, f.config.AnyOrder = "", true
	assert.Contains(t, row(t, f.run(), "token").Seen, user)
	f.mark(user, tokenstore.ReasonDisconnecting)
	assert.Equal(t, doctor.StatusSkip, row(t, f.run(), "token").Status)
}

func TestInvalidConfigFails(t *testing.T) {
	t.Parallel()
	site := api.Site{Environment: api.USSandbox}
	for field, config := range map[string]doctor.Config{
		"OAuth.Site.Environment": {},
		"Operations[1]":          {OAuth: oauth.Config{Site: site}, Operations: []string{"patients.create", "patients.crate"}},
		"User":                   {OAuth: oauth.Config{Site: site}, User: user},
		"Webhook.Secrets":        {OAuth: oauth.Config{Site: site}, Webhook: doctor.Webhook{URL: "https://ehr.example", Challenge: api.NewSecret("c")}},
		"Webhook.Challenge":      {OAuth: oauth.Config{Site: site}, Webhook: doctor.Webhook{URL: "https://ehr.example", Secrets: []api.Secret{api.NewSecret("s")}}},
		"LeaseTTL":               {OAuth: oauth.Config{Site: site}, LeaseTTL: -1},
	} {
		_, err := doctor.Run(t.Context(), config)
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument, field)
		assert.Equal(t, "doctor.Config."+field, argument.Field)
	}
}

func TestExposedSecretFilesCauseWarning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	folder := t.TempDir()
	for above := folder; above != filepath.Dir(above); above = filepath.Dir(above) {
		if about, err := os.Stat(above); err == nil && about.Mode().Perm()&0o011 == 0 {
			t.Skip("others cannot enter ", above)
		}
	}
	file := func(name string, mode os.FileMode) string {
		name = filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.Chmod(name, mode))
		return name
	}
	run := func(files ...string) doctor.Row {
		config := doctor.Config{SecretFiles: files}
		config.OAuth.Site.Environment = newFixture(t).config.OAuth.Site.Environment
		report, err := doctor.Run(t.Context(), config)
		require.NoError(t, err)
		return row(t, report, "secret files")
	}
	closed := []string{file("a", 0o600), file("b", 0o640), file("c", 0o400), filepath.Join(folder, "absent")}
	private := file("private/d", 0o666)
	require.NoError(t, os.Chmod(filepath.Dir(private), 0o700))
	assert.Equal(t, doctor.StatusPass, run(append(closed, private)...).Status)
	assert.Equal(t, doctor.StatusSkip, run().Status)
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(file("it's", 0o604), link))
	for _, open := range []string{file("e", 0o644), file("f", 0o660), file("g", 0o602), link} {
		got := run(append(closed, open)...)
		assert.Equal(t, doctor.StatusWarn, got.Status, open)
		assert.Contains(t, got.Seen, open)
		assert.Len(t, got.Commands, 1)
	}
	assert.Equal(t, []string{"chmod 600 '" + filepath.Join(folder, `it'\''s`) + "'"}, run(filepath.Join(folder, "it's")).Commands)
}
