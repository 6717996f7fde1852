package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/integration"
)

// asProgram is set if the test binary runs as the user's program.
const asProgram = "DISPENSARY_TEST_PROGRAM"

// runProgram runs this program. what is the value of asProgram.
func runProgram(what string) int {
	config, err := integration.Load(os.Environ())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 10
	}
	client, err := dispensary.NewFromEnv()
	if err == nil {
		_, err = client.Clinic.Get(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 11
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println("calls", config.Applications[0].Name())
	switch what {
	case "waits":
		<-ctx.Done()
		_, err := client.Clinic.Get(context.Background())
		fmt.Println("ended", err)
	case "fails":
		return 7
	case "is killed":
		process, _ := os.FindProcess(os.Getpid())
		_ = process.Kill()
		<-ctx.Done()
	}
	return 0
}

func TestDevRunsProgram(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	f := newFixture(t)
	dev := func(what string, flags ...string) (int, string, string) {
		t.Setenv(asProgram, what)
		return f.run(append(append([]string{"dev"}, flags...), "--", self)...)
	}
	code, out, stderr := dev("ends", "--region", "CA")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, "calls ca-sandbox\n", out)
	assert.Regexp(t, `^The fake platform is at http://\S+/api, its console at http://\S+/console/\nThe control API, for dispensary trigger --control, is at http://\S+/control\n$`, stderr)

	code, out, stderr = dev("ends", "--json")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, 1, assertDocuments(t, "dev", out))
	assert.Equal(t, "calls us-sandbox\n", stderr)
	var settings control.Settings
	require.NoError(t, json.Unmarshal([]byte(out), &settings))
	_, err = http.Get(settings.ControlURL + "/settings")
	require.Error(t, err, "the platform must end with the program")

	t.Setenv("DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE", filepath.Join(f.folder, "secret-of-the-sandbox"))
	state := filepath.Join(f.folder, "state.json")
	code, _, stderr = dev("ends", "--state", state)
	require.Equal(t, exitDone, code, stderr)
	assert.FileExists(t, state+".seal.key")

	code, _, stderr = dev("fails")
	assert.Equal(t, 7, code)
	assert.True(t, strings.HasSuffix(stderr, "failed: exit status 7\n"), stderr)
	if runtime.GOOS != "windows" {
		code, _, stderr = dev("is killed")
		assert.Equal(t, 128+9, code)
		assert.Contains(t, stderr, "failed: signal: killed\n")
	}
}

// After Ctrl-C, the program can still call the platform.
func TestDevEndsProgramBeforePlatform(t *testing.T) {
	t.Setenv(asProgram, "waits")
	self, err := os.Executable()
	require.NoError(t, err)
	r := newFixture(t).start(nil, "dev", "--", self)
	r.out.after(t, "calls us-sandbox\n")
	r.end(exitDone)
	assert.Contains(t, r.out.String(), "ended <nil>\n")
	assert.Contains(t, r.errOut.String(), "Waiting up to 30 s for "+self+" to exit.\n")
}

// devSettings returns the settings of the fixture's platform, as dev passes them to a program.
func (f *fixture) devSettings() control.Settings {
	app := f.platform.Application()
	return control.Settings{
		BaseURL: f.platform.Site().BaseURL, AuthURL: f.platform.Site().AuthURL, ClientID: app.ClientID, ClientSecret: app.ClientSecret,
		RedirectURI: app.RedirectURI, ClinicKey: f.platform.ClinicKey(),
	}
}

// underDev sets the variables that dev sets, without a token.
func (f *fixture) underDev(state string) {
	f.t.Helper()
	kept := f.variables
	variables, err := f.program(nil, nil, nil).variables(f.platform, f.devSettings(), state)
	require.NoError(f.t, err)
	f.variables = map[string]string{storeVariable: kept[storeVariable]}
	maps.Copy(f.variables, variables)
}

// Users of all clinics can call, because dev sets no clinic key for them.
func TestDevServesUsersOfAllClinics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
	f.variables = map[string]string{storeVariable: "sqlite:" + filepath.Join(f.folder, "ehr.db")}
	f.underDev(filepath.Join(f.folder, "state.json"))
	for _, clinic := range f.platform.Clinics.All() {
		start, ended := f.login("--user", clinic.ID)
		f.browse(start, func(address string, _ model.User) (*url.URL, error) {
			return f.platform.Approve(address, userOf(t, f.platform, clinic.ID))
		})
		code, _, stderr := ended()
		require.Equal(t, exitDone, code, stderr)
		out, _ := f.ran("api", "GET", "/clinic", "--user", clinic.ID, "--jq", ".clinic.id")
		assert.Equal(t, clinic.ID+"\n", out)
	}
	out, _ := f.ran("api", "GET", "/clinic", "--jq", ".clinic.id")
	assert.Equal(t, f.platform.Clinics.All()[0].ID+"\n", out, "the token belongs to the first clinic, like its key")
}

// userOf returns a user of a clinic.
func userOf(t *testing.T, platform *dispensarytest.Server, clinicID string) model.User {
	t.Helper()
	users := platform.Users()
	i := slices.IndexFunc(users, func(u model.User) bool { return u.ClinicID == clinicID })
	require.GreaterOrEqual(t, i, 0)
	return users[i]
}

// The next run with the same state file decrypts the stored tokens.
func TestDevKeepsKeyBesideState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	state := filepath.Join(f.folder, "state.json")
	f.variables = map[string]string{storeVariable: "sqlite:" + filepath.Join(f.folder, "ehr.db")}
	f.underDev(state)
	f.connected("dr-house")
	f.variables = map[string]string{storeVariable: f.variables[storeVariable]}
	f.underDev(state)
	f.ran("api", "GET", "/clinic", "--user", "dr-house")

	file := state + ".seal.key"
	info, err := os.Stat(file)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = f.program(nil, nil, nil).keys(state)
	assert.ErrorContains(t, err, "state.json.seal.key contains no encryption key")
}

// Without its key, storage would be unreadable in the next run.
func TestDevRejectsDurableStorageWithoutKey(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{storeVariable, inboxVariable, storeVariable + "_FILE"} {
		f := newFixture(t)
		f.variables[variable] = "sqlite:" + filepath.Join(f.folder, "ehr.db")
		f.rejected("outlives this run, but its encryption key does not: add --state, or set DISPENSARY_SEAL_KEYS", "dev", "--", "true")
		f.variables[sealKeysVariable] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
		variables, err := f.program(nil, nil, nil).variables(f.platform, f.devSettings(), "")
		require.NoError(t, err)
		assert.NotContains(t, variables, sealKeysVariable)
	}
}

func TestDevRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.rejected("dev needs a command after two dashes", "dev")
	f.rejected(`program "no-such-program" does not exist or is not executable`, "dev", "--", "no-such-program")
	f.rejected("must be a whole number", "dev", "--seed", "one", "--", "true")
	taken := takeAddress(t, "127.0.0.1:0")
	f.rejected("--addr "+taken+": address already in use", "dev", "--addr", taken, "--", "true")
	f.rejected("--state /none/state.json: directory /none does not exist", "dev", "--state", "/none/state.json", "--", "true")
}
