package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/control"
	"github.com/dispensary-go/dispensary/internal/testsize"
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

// What happens is in the file soon after, however much there is of everything and while
// a lot happens; and what is in the file when the process is killed is there again.
func TestAKillLosesNothingThatIsInTheFile(t *testing.T) {
	t.Parallel()
	assert.Less(t, stateInterval, time.Second, "a kill loses less than the last second")
	for _, size := range testsize.Of([]string{"small"}, []string{"small", "large"}) {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "state.json")
			command, settings := start(t, "-state", file, "-size", size)
			registered := []string{register(t, settings)}
			inFile := func(id string) bool {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				whole := content[:bytes.LastIndexByte(content, '\n')+1] // a line may be cut short
				return bytes.Contains(whole, []byte(`"`+id+`"`))
			}
			for !inFile(registered[0]) {
				registered = append(registered, register(t, settings))
			}
			require.NoError(t, command.Process.Kill())
			require.Error(t, command.Wait())
			var kept []string
			for _, id := range registered {
				if inFile(id) {
					kept = append(kept, id)
				}
			}

			command, settings = start(t, "-state", file)
			there := patients(t, settings, len(registered))
			for _, id := range kept {
				assert.True(t, there[id], id)
			}
			t.Logf("%d of %d patients were in the file", len(kept), len(registered))
			require.NoError(t, command.Process.Signal(os.Interrupt))
			require.NoError(t, command.Wait())
		})
	}
}

// patients are the latest of a platform.
func patients(t *testing.T, settings control.Settings, latest int) map[string]bool {
	t.Helper()
	answer, err := http.Get(settings.ControlURL + "/patients?latest=" + strconv.Itoa(latest))
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

// keeping is a platform with a keeper that nobody runs, so that a test takes its
// steps.
func keeping(t *testing.T, outgrown int64) *keeper {
	t.Helper()
	k := &keeper{name: filepath.Join(t.TempDir(), "state.json"), platform: dispensarytest.New(t), outgrown: outgrown}
	require.NoError(t, k.begin())
	t.Cleanup(func() { _ = k.file.Close() })
	return k
}

// kept is how many patients the file has, and in how many lines.
func (k *keeper) kept(t *testing.T) (known, lines int) {
	t.Helper()
	content, err := os.ReadFile(k.name)
	require.NoError(t, err)
	snapshot, err := dispensarytest.LoadSnapshot(bytes.NewReader(content))
	require.NoError(t, err)
	again := dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithSnapshot(snapshot))
	return len(again.Platform().Patients()), bytes.Count(content, []byte("\n"))
}

func (k *keeper) happens(t *testing.T) {
	t.Helper()
	_, _, err := k.platform.Platform().RegisterPatient(dispensarytest.NewPatient{})
	require.NoError(t, err)
}

func TestOnlyChangesAreWritten(t *testing.T) {
	t.Parallel()
	k := keeping(t, outgrown)
	known, lines := k.kept(t)
	assert.Equal(t, 1, lines)
	for range 3 {
		require.NoError(t, k.save())
		k.happens(t)
		require.NoError(t, k.save())
	}
	more, lines := k.kept(t)
	assert.Equal(t, known+3, more)
	assert.Equal(t, 4, lines)
}

// A file that has grown is written anew, and nothing that happens meanwhile is lost.
func TestAStateFileIsWrittenAnew(t *testing.T) {
	t.Parallel()
	k := keeping(t, 0)
	known, _ := k.kept(t)
	for k.beside == nil {
		k.happens(t)
		known++
		require.NoError(t, k.save())
	}
	beside := <-k.beside
	k.beside <- beside
	k.happens(t)
	more, lines := k.kept(t)
	assert.Equal(t, known, more)
	assert.Greater(t, lines, 2)
	require.NoError(t, k.save())
	more, lines = k.kept(t)
	assert.Equal(t, known+1, more)
	assert.Equal(t, 2, lines, "the new snapshot, and what came while it was written")
	k.happens(t)
	require.NoError(t, k.save())
	more, lines = k.kept(t)
	assert.Equal(t, known+2, more)
	assert.Equal(t, 3, lines)
}

func TestAStateFileThatWasRemovedComesBack(t *testing.T) {
	t.Parallel()
	k := keeping(t, outgrown)
	known, _ := k.kept(t)
	require.NoError(t, os.Remove(k.name))
	require.NoError(t, k.save())
	again, lines := k.kept(t)
	assert.Equal(t, known, again)
	assert.Equal(t, 1, lines)
}

// A reset goes back to what the command started with, the state file included; and
// the file follows.
func TestAResetGoesBackToTheStateOfTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	first := launch(t, "-state", file)
	before := register(t, first.settings)
	first.stop()
	require.Equal(t, exitDone, <-first.code)

	second := launch(t, "-state", file)
	after := register(t, second.settings)
	answer, err := http.Post(second.settings.ControlURL+"/reset", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	there := patients(t, second.settings, 100)
	assert.True(t, there[before])
	assert.False(t, there[after])
	second.stop()
	require.Equal(t, exitDone, <-second.code)

	third := launch(t, "-state", file)
	assert.Equal(t, there, patients(t, third.settings, 100))
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
