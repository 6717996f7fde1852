package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
)

// ask posts to the control API and decodes the response.
func ask[T any](t *testing.T, settings control.Settings, path string) (answered T) {
	t.Helper()
	answer, err := http.Post(settings.ControlURL+path, "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&answered))
	return answered
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
	answer, err := http.Get(settings.ControlURL + "/patients?order_by=DESC&limit=" + strconv.Itoa(latest))
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var list struct{ Patients []struct{ ID string } }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
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
		stderr := bare(t).refused(says, "fake", "--state", file)
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
		bare(t).refused(flags[0]+": "+file+" already contains a platform", append([]string{"fake", "--state", file}, flags...)...)
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
	bare(t).refused("--state "+file+": in use by another process", "fake", "--state", file)
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
