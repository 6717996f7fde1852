package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/platformtest"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// write is one write that was answered.
type write struct {
	id             string
	sent, answered time.Time
}

// A platform that is killed while it is written to starts again, and has every write
// that was answered before the snapshot in its state file was taken. How old that is at
// most, TestTheFileFollowsWithinASecond proves: here it depends on the machine, too.
func TestAKillLosesTheLastSecondAtMost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	for round := range testsize.Of(3, 20) {
		command, settings, _ := start(t, "--state", file)
		w := startWriters(settings, issue(t, settings), round)
		require.Eventually(t, w.wroteLongEnough, time.Minute, 10*time.Millisecond)
		require.NoError(t, command.Process.Kill())
		killed := time.Now()
		require.Error(t, command.Wait())
		w.running.Wait()
		assertKept(t, round, file, w.answered, killed)
	}
	command, _, _ := start(t, "--state", file)
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.NoError(t, command.Wait())
}

// writers make patients until the command is killed, through its control API and as the
// application.
type writers struct {
	running sync.WaitGroup

	mu       sync.Mutex
	answered []write
}

func startWriters(settings control.Settings, token string, round int) *writers {
	w := &writers{}
	for writer := range 4 {
		w.running.Go(func() {
			for n := 0; ; n++ {
				address, bearer, body := settings.ControlURL+"/patients", "", "{}"
				if writer%2 == 0 {
					address, bearer = settings.BaseURL+"/clinic/patients", token
					body = fmt.Sprintf(`{"first_name":"A","last_name":"B","email":"%d.%d.%d@example.org"}`, round, writer, n)
				}
				one, ok := post(address, bearer, body)
				if !ok {
					return // it was killed
				}
				w.mu.Lock()
				w.answered = append(w.answered, one)
				w.mu.Unlock()
			}
		})
	}
	return w
}

// wroteLongEnough reports that writes were answered for a second and a half.
func (w *writers) wroteLongEnough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.answered)
	return n > 100 && w.answered[n-1].answered.Sub(w.answered[0].sent) > 1500*time.Millisecond
}

// assertKept demands that the file has every write that was answered before its moment.
func assertKept(t *testing.T, round int, file string, answered []write, killed time.Time) {
	t.Helper()
	at, there := momentOf(t, file), platformtest.PatientIDs(t, file)
	lost := 0
	for _, one := range answered {
		if !there[one.id] {
			lost++
			assert.True(t, one.answered.After(at), "round %d: a write that was answered %s before the snapshot is lost", round, at.Sub(one.answered))
		}
	}
	t.Logf("round %d: %d of %d answered writes lost; the file was %s old", round, lost, len(answered), killed.Sub(at).Round(time.Millisecond))
}

// momentOf is when the snapshot in a file was taken.
func momentOf(t *testing.T, name string) time.Time {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	var head struct{ At time.Time }
	require.NoError(t, json.Unmarshal(content, &head))
	require.NotZero(t, head.At)
	return head.At
}

func post(address, bearer, body string) (one write, ok bool) {
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return one, false
	}
	request.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	one.sent = time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return one, false
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	one.answered = time.Now()
	var made registered
	if err != nil || json.Unmarshal(content, &made) != nil || made.Patient.ID == "" {
		return one, false
	}
	one.id = made.Patient.ID
	return one, true
}
