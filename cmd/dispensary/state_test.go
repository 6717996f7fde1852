package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/control"
)

// register has a person register through the control API, and returns the id.
func register(t *testing.T, settings control.Settings) string {
	t.Helper()
	answer, err := http.Post(settings.ControlURL+"/patients", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var made struct{ Patient struct{ ID string } }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&made))
	require.NotEmpty(t, made.Patient.ID)
	return made.Patient.ID
}

func TestTheStateOutlivesARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	r := launch(t, "-state", file, "-freeze", "2026-03-02T09:00:00Z")
	patient := register(t, r.settings)
	answer, err := http.Post(r.settings.ControlURL+"/tokens", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	var token struct {
		Value string `json:"access_token"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&token))
	require.NoError(t, answer.Body.Close())
	r.stop()
	require.Equal(t, exitDone, <-r.code)

	again := launch(t, "-state", file)
	assert.Equal(t, r.settings.ClientSecret, again.settings.ClientSecret)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, again.settings.BaseURL+"/clinic/patients/"+patient, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token.Value)
	answer, err = http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusOK, answer.StatusCode, "the patient is there, and the token is good")
	_, clock := again.get(again.settings.ControlURL + "/clock")
	assert.Contains(t, clock, `"now":"2026-03-02T09:00:00Z"`)
	again.stop()
	require.Equal(t, exitDone, <-again.code)

	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no half files are left")
}

// start runs the binary, and returns its settings.
func start(t *testing.T, args ...string) (*exec.Cmd, control.Settings) {
	t.Helper()
	name, err := binary()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), name, append([]string{"fake", "-json"}, args...)...)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	var settings control.Settings
	require.NoError(t, json.Unmarshal(line, &settings))
	return command, settings
}

// What happened a second before the process is killed is in the file.
func TestAKillLosesAtMostTheLastSecond(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	command, settings := start(t, "-state", file)
	patient := register(t, settings)
	happened := time.Now()
	for {
		state, err := os.ReadFile(file)
		require.NoError(t, err)
		if bytes.Contains(state, []byte(patient)) {
			break
		}
		// Not a wait for something to be over, but a look at a file of another
		// process, which has nothing to wake us with.
		<-time.After(5 * time.Millisecond)
		require.Less(t, time.Since(happened), 10*time.Second)
	}
	taken := time.Since(happened)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())
	t.Logf("the file was written after %s", taken.Round(time.Millisecond))
	assert.Less(t, taken, time.Second)

	command, settings = start(t, "-state", file)
	answer, err := http.Get(settings.ControlURL + "/patients/" + patient)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.NoError(t, command.Wait())
}

func TestABrokenStateFileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"Version":`), 0o600))
	code, out, stderr := runned(t, "fake", "-state", file)
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, out)
	assert.Contains(t, stderr, "-state "+file)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, `{"Version":`, string(kept))
}

func TestAStateFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(folder, 0o700))
	r := launch(t, "-state", filepath.Join(folder, "state.json"))
	require.NoError(t, os.RemoveAll(folder))
	register(t, r.settings)
	assert.Equal(t, exitFailed, <-r.code, "it ends rather than forget in silence")
}

func TestTheConsoleStandsBesideThePlatform(t *testing.T) {
	t.Parallel()
	r := launch(t, "-reading", "probe=before-each", "-size", "small")
	status, page := r.get(strings.TrimSuffix(r.settings.ControlURL, "control"))
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, page, r.settings.ClientSecret)
	_, page = r.get(r.settings.ConsoleURL + "silences")
	assert.Contains(t, page, `<span class="state done">before-each</span>`)
}
