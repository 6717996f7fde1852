package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// ask posts to the control API and decodes the response.
func ask[T any](t *testing.T, settings control.Settings, path string) (responded T) {
	t.Helper()
	response, err := http.Post(settings.ControlURL+path, "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(&responded))
	return responded
}

// registered is the response of the control API to a registration.
type registered struct {
	Patient, Event struct{ ID string }
}

// register registers a patient and returns the ID.
func register(t *testing.T, settings control.Settings) string {
	t.Helper()
	return ask[registered](t, settings, "/patients").Patient.ID
}

// start starts the binary. It returns its settings once it is ready, and a scanner of the following
// lines.
func start(t *testing.T, args ...string) (*exec.Cmd, control.Settings, *bufio.Scanner) {
	t.Helper()
	name, err := binary()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), name, append([]string{"fake", "--json"}, args...)...)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	var settings control.Settings
	require.NoError(t, json.Unmarshal(lines.Bytes(), &settings))
	return command, settings, lines
}

// patients returns the ids of the latest patients of a platform.
func patients(t *testing.T, settings control.Settings, latest int) map[string]bool {
	t.Helper()
	response, err := http.Get(settings.ControlURL + "/patients?order_by=DESC&limit=" + strconv.Itoa(latest))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var list struct{ Patients []struct{ ID string } }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&list))
	ids := map[string]bool{}
	for _, p := range list.Patients {
		ids[p.ID] = true
	}
	return ids
}

// A reset restores the state file of the start, and saves it again.
func TestResetRestoresInitialState(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	first := launch(t, "--state", file)
	before := register(t, first.settings)
	first.end(exitDone)

	second := launch(t, "--state", file)
	after := register(t, second.settings)
	ask[struct{}](t, second.settings, "/reset")
	there := patients(t, second.settings, 100)
	assert.True(t, there[before])
	assert.False(t, there[after])
	second.end(exitDone)

	third := launch(t, "--state", file)
	assert.Equal(t, there, patients(t, third.settings, 100))
}

// A file in another format or version stays unchanged.
func TestFakeRejectsForeignStateFile(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"":                  "it is empty",
		"#!/bin/sh\nexit 0": "not a snapshot",
		`{"name":"mine"}`:   "not a snapshot",
		`{"Format":"dispensary test platform","Version":99}`: "version 99, this program reads version",
		`{"Format":"dispensary test platform","Vers`:         "a damaged snapshot",
	} {
		file := filepath.Join(t.TempDir(), "state.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		stderr := bare(t).rejected(says, "fake", "--state", file)
		assert.Contains(t, stderr, "--state "+file)
		assert.Contains(t, stderr, "was not changed")
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, content, string(kept))
	}
}

// A flag cannot change the platform of a state file.
func TestStateFileRejectsWorldFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	first := launch(t, "--state", file, "--seed", "7", "--size", "small")
	first.end(exitDone)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, flags := range [][]string{{"--seed", "7"}, {"--region", "CA"}, {"--size", "large"}, {"--scopes", "clinic:read"}, {"--integrations", "2"}} {
		bare(t).rejected(flags[0]+": "+file+" already contains a platform", append([]string{"fake", "--state", file}, flags...)...)
	}
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	again := launch(t, "--state", file, "--freeze", "now")
	assert.Equal(t, first.settings.ClientSecret, again.settings.ClientSecret)
}

func TestStateFileRejectsSecondProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	command, settings, _ := start(t, "--state", file)
	bare(t).rejected("--state "+file+": in use by another process", "fake", "--state", file)
	register(t, settings)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())
	again := launch(t, "--state", file)
	again.end(exitDone)
}

func TestUnwritableStateFileEndsFake(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(folder, 0o700))
	r := launch(t, "--state", filepath.Join(folder, "state.json"))
	require.NoError(t, os.RemoveAll(folder))
	register(t, r.settings)
	assert.Equal(t, exitFailed, <-r.code, "the fake must exit instead of losing changes")
}

func TestFakeServesConsole(t *testing.T) {
	t.Parallel()
	r := launch(t, "--behavior", "probe=before-each", "--size", "small")
	status, page := r.get(strings.TrimSuffix(r.settings.ControlURL, "control"))
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, page, r.settings.ClientSecret)
	_, page = r.get(r.settings.ConsoleURL + "behaviors")
	assert.Contains(t, page, `<span class="state done">before-each</span>`)
}

// fakePlatform is a running fake with its printed settings.
type fakePlatform struct {
	*running
	settings control.Settings
	line     string
}

// launch starts the fake with --json.
func launch(t *testing.T, flags ...string) *fakePlatform {
	t.Helper()
	p := &fakePlatform{running: bare(t).start(nil, append([]string{"fake", "--json"}, flags...)...)}
	p.line = "{" + p.out.after(t, "{")
	require.NoError(t, json.Unmarshal([]byte(p.line), &p.settings))
	return p
}

func (r *fakePlatform) get(address string) (int, string) {
	r.t.Helper()
	response, err := http.Get(address)
	require.NoError(r.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return response.StatusCode, string(text)
}

func TestFakePrintsSettings(t *testing.T) {
	t.Parallel()
	r := launch(t, "--seed", "7", "--region", "CA", "--redirect-uri", "https://ehr.example.com/callback")
	assert.Equal(t, 1, assertDocuments(t, "fake", r.line))
	assert.Equal(t, "https://ehr.example.com/callback", r.settings.RedirectURI)
	status, _ := r.get(r.settings.BaseURL + "/clinic")
	assert.Equal(t, http.StatusUnauthorized, status, "the API requires a token")
	_, same := r.get(r.settings.ControlURL + "/settings")
	assert.JSONEq(t, r.line, same, "the control API returns the same settings")
	r.end(exitDone)
}

func TestFakeStartsWithOwnWorld(t *testing.T) {
	t.Parallel()
	// The file is the example of the help.
	help, _ := bare(t).ran("help", "fake")
	_, text, _ := strings.Cut(help, "default catalog:\n")
	text, _, _ = strings.Cut(text, "\nIf the file has several clinics")
	world := filepath.Join(t.TempDir(), "world.json")
	require.NoError(t, os.WriteFile(world, []byte(text), 0o600))
	r := launch(t, "--world", world)
	require.Len(t, r.settings.Users, 2)
	assert.Equal(t, "ada@ehr.example", r.settings.Users[0].Email)
	r.end(exitDone)

	require.NoError(t, os.WriteFile(world, []byte(strings.Replace(strings.Replace(text, "max@", "canary", 1), `"units": 2`, `"unit": 2`, 1)), 0o600))
	stderr := bare(t).rejected("--world: "+world+": patients[0].email is not an e-mail address; ", "fake", "--world", world)
	assert.Contains(t, stderr, "; plans[0].products[0].unit does not exist: did you mean units?")
	assert.NotContains(t, stderr, "canary")
	bare(t).rejected("--world: sets the size of the world: remove the size option", "fake", "--world", world, "--size", "large")
}

// Without a seed, secrets are unpredictable. The printed seed still repeats the run.
func TestSecretsAreRandomWithoutSeed(t *testing.T) {
	t.Parallel()
	first, second := launch(t), launch(t)
	assert.NotEqual(t, first.settings.ClientSecret, second.settings.ClientSecret)
	assert.NotEqual(t, first.settings.WebhookSecret, second.settings.WebhookSecret)
	assert.NotEqual(t, first.settings.ChallengeToken, second.settings.ChallengeToken)
	assert.NotEqual(t, first.settings.ClinicKey, second.settings.ClinicKey)

	output := announced(t)
	seed := regexp.MustCompile(`(?m)^Seed +(\d+)$`).FindStringSubmatch(output)
	require.Len(t, seed, 2, output)
	again := launch(t, "--seed", seed[1])
	assert.Contains(t, output, again.settings.ClientSecret)
}

func TestFakeRegistersWebhook(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got <- q.Header.Get("SVC-Signature") }))
	t.Cleanup(receiver.Close)
	r := launch(t, "--webhook", receiver.URL, "--behavior", "delivery-conditions=off", "--behavior", "integration-activation=from-the-start")
	register(t, r.settings)
	assert.Contains(t, <-got, "v1=")
}

func TestFakeServesTLS(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "platform.pem")
	r := launch(t, "--tls", "--cert", file)
	pem, err := os.ReadFile(file)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(client.CloseIdleConnections)
	response, err := client.Get(r.settings.BaseURL + "/clinic")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
	assert.True(t, strings.HasPrefix(r.settings.AuthURL, "https://"))
	assert.True(t, strings.HasPrefix(r.settings.ControlURL, "http://127.0.0.1:"), "console and control API use plain HTTP, because they are on loopback")
}

func TestFakeFreezesClock(t *testing.T) {
	t.Parallel()
	r := launch(t, "--freeze", "2026-03-02T09:00:00Z")
	_, clock := r.get(r.settings.ControlURL + "/clock")
	assert.JSONEq(t, `{"now":"2026-03-02T09:00:00Z","frozen":true,"next":null}`, clock)
	_, clock = r.get(launch(t, "--freeze", "now").settings.ControlURL + "/clock")
	assert.Contains(t, clock, `"frozen":true`)
}

func TestFakeEndsDespiteOpenPage(t *testing.T) {
	t.Parallel()
	r := launch(t, "--state", filepath.Join(t.TempDir(), "state"))
	page, err := http.Get(r.settings.ConsoleURL + "live")
	require.NoError(t, err)
	assert.Equal(t, "text/event-stream", page.Header.Get("Content-Type"))
	r.end(exitDone)
	require.NoError(t, page.Body.Close())
}

// announced runs the fake without --json and returns its output.
func announced(t *testing.T, flags ...string) string {
	t.Helper()
	r := bare(t).start(nil, append([]string{"fake"}, flags...)...)
	r.out.after(t, "Ready.\n")
	r.end(exitDone)
	return r.out.String()
}

func TestFakeAnnouncesPlatform(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	output := announced(t, "--state", file)
	assert.NotRegexp(t, `(?m)[ \t]+$`, output, "no line ends with blanks")
	assert.True(t, strings.HasSuffix(output, "Ready.\nThe state is saved in "+file+".\n"), output)
	assert.True(t, strings.HasSuffix(announced(t), "Ready.\n"), "without --state, no state is saved")
}

// folder is the folder of the built command.
var folder string

func TestMain(m *testing.M) {
	if what := os.Getenv(asProgram); what != "" {
		os.Exit(runProgram(what))
	}
	var err error
	if folder, err = os.MkdirTemp("", "dispensary"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// binary builds the command once, with the race detector if the tests use it.
var binary = sync.OnceValues(func() (string, error) {
	name := filepath.Join(folder, "dispensary")
	command := exec.Command("go", "build", "-race="+strconv.FormatBool(testsize.Race), "-o", name, ".")
	command.Stderr = os.Stderr
	return name, command.Run()
})

func TestSignalEndsBinary(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		command, _, lines := start(t)
		require.NoError(t, command.Process.Signal(signal))
		assert.False(t, lines.Scan(), "it prints nothing more")
		assert.NoError(t, command.Wait(), "exit code 0 after %s", signal)
	}
}

// A terminal and npm send the same Ctrl-C, see main.
func TestRepeatedSignalKeepsState(t *testing.T) {
	t.Parallel()
	command, _, _ := start(t, "--state", filepath.Join(t.TempDir(), "state.json"))
	for range 20_000 {
		require.NoError(t, command.Process.Signal(os.Interrupt))
	}
	assert.NoError(t, command.Wait(), "exit code 0")
}

func TestBinaryRejectsUnknownFlag(t *testing.T) {
	t.Parallel()
	name, err := binary()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), name, "fake", "--bogus")
	require.Error(t, command.Run())
	assert.Equal(t, exitReject, command.ProcessState.ExitCode())
}
