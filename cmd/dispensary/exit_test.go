package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// behind replaces the platform of the fixture by a server of handler, and sets an access token.
func (f *fixture) behind(handler http.HandlerFunc) *httptest.Server {
	f.t.Helper()
	server := httptest.NewServer(handler)
	f.t.Cleanup(server.Close)
	f.variables["DISPENSARY_US_SANDBOX_BASE_URL"] = server.URL + "/api"
	f.variables["DISPENSARY_ACCESS_TOKEN"] = "token"
	return server
}

// loses reads a request and closes the connection without a response.
func loses(w http.ResponseWriter, r *http.Request) {
	_, _ = io.ReadAll(r.Body)
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// A script may repeat a command after exit code 2, so a sent write never exits with 2.
func TestLostResponseOfWriteExitsWithOne(t *testing.T) {
	t.Parallel()
	for name, respond := range map[string]http.HandlerFunc{
		"lost":       loses,
		"unreadable": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"gateway":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		f := newFixture(t)
		address := f.behind(respond).URL
		for _, args := range [][]string{
			{"api", "POST", "/clinic/patients", "-f", "email=a@example.com"},
			{"api", "PATCH", "/clinic/patients/1", "-f", "email=a@example.com"},
			{"trigger", "patient.created", "--control", address + "/control"},
		} {
			code, _, stderr := f.run(args...)
			assert.Equal(t, exitFailed, code, "%s %s: %s", name, args, stderr)
			if name != "unreadable" {
				assert.Contains(t, stderr, "write may have been applied", "%s %s", name, args)
			}
		}
	}
}

func TestInterruptedWriteReportsOutcome(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"api":     {"api", "POST", "/clinic/patients", "-f", "email=a@example.com"},
		"trigger": {"trigger", "patient.created"},
		"probe":   {"probe", "--yes", "--output", filepath.Join(t.TempDir(), "behaviors.json")},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		f := newFixture(t)
		server := f.behind(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			interrupt()
			<-r.Context().Done()
		})
		f.variables[controlVariable] = server.URL + "/control"
		code, _, stderr := f.runWith(ctx, "", args...)
		assert.Equal(t, exitFailed, code, name)
		assert.Regexp(t, `^dispensary: interrupted: .*write may have been applied\n$`, stderr, name)
	}
}

// Disconnect revokes tokens at the platform before it deletes them from the store.
func TestInterruptedDisconnectReportsOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.variables[storeVariable] = "sqlite:" + filepath.Join(f.folder, "ehr.db")
	f.variables[sealKeysVariable] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	f.connected("dr-house")
	ctx, interrupt := context.WithCancel(t.Context())
	server := f.behind(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		interrupt()
		<-r.Context().Done()
	})
	f.variables["DISPENSARY_US_SANDBOX_AUTH_URL"] = server.URL
	code, _, stderr := f.runWith(ctx, "", "accounts", "disconnect", "--user", "dr-house")
	assert.Equal(t, exitFailed, code)
	assert.Regexp(t, `^dispensary: interrupted: .*write may have been applied.*\n$`, stderr)
}

// A change in the store sends no request, and remains if stdout is not writable.
func TestChangeOfStoreExitsWithOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connected("dr-house")
	f.platform.Tokens.InvalidateAll()
	f.run("api", "GET", "/clinic", "--user", "dr-house")
	code := f.program(strings.NewReader(""), unwritable{}, io.Discard).run(t.Context(), []string{"accounts", "restore", "--user", "dr-house"})
	assert.Equal(t, exitFailed, code)
	_, out, _ := f.run("accounts", "list")
	assert.Contains(t, out, "\texpiring\t")
}

// unwritable is a stdout without a reader.
type unwritable struct{}

// Write implements [io.Writer].
func (unwritable) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An interrupted read has no outcome to report.
func TestInterruptedReadReportsNoOutcome(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	f := newFixture(t)
	f.behind(func(_ http.ResponseWriter, r *http.Request) { interrupt(); <-r.Context().Done() })
	code, _, stderr := f.runWith(ctx, "", "api", "GET", "/clinic")
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "dispensary: interrupted\n", stderr)
}

// callers are the commands that call the platform, with their arguments.
var callers = [][]string{
	{"api", "GET", "/clinic"}, {"listen", "--forward-to", "http://127.0.0.1:9/x"},
}

// The help of a command explains neither a network error nor a missing file.
func TestUnreachablePlatformIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	f.variables["DISPENSARY_US_SANDBOX_BASE_URL"] = "http://" + freeAddress(t) + "/api"
	for _, args := range append(callers, []string{"api", "POST", "/clinic/patients", "-f", "first_name=Ada"}, []string{"trigger", "patient.created", "--control", "http://" + freeAddress(t)}) {
		assert.NotContains(t, f.rejected("connection refused", args...), "dispensary help", args)
	}
	assert.NotContains(t, f.rejected("no such file", "api", "POST", "/clinic/patients", "--input", f.folder+"/absent"), "dispensary help")
	output := filepath.Join(t.TempDir(), "behaviors.json")
	f.rejected("connection refused", "probe", "--yes", "--output", output)
	assert.NoFileExists(t, output)
	assert.Empty(t, f.platform.Journal.Requests())
}

// The store file stays unchanged.
func TestUnreadableStoreIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store := filepath.Join(t.TempDir(), "tokens.db")
	damaged := []byte("this is no database, whatever its name says it may be")
	require.NoError(t, os.WriteFile(store, damaged, 0o600))
	f.variables["DISPENSARY_STORE"] = "sqlite:" + store
	f.variables["DISPENSARY_SEAL_KEYS"] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	for _, args := range append(callers, []string{"login"}, []string{"accounts", "list"}, []string{"accounts", "restore"}, []string{"accounts", "disconnect"}, []string{"probe", "--yes"}) {
		f.rejected("not a database", args...)
	}
	kept, err := os.ReadFile(store)
	require.NoError(t, err)
	assert.Equal(t, damaged, kept)
	assert.Empty(t, f.platform.Journal.Requests())
}
