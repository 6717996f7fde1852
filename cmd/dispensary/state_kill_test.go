package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// written is one write that was answered.
type written struct {
	id             string
	sent, answered time.Time
}

// A platform that is killed while it is written to starts again, and has every write
// that was answered more than a second before the last one that was answered was
// sent: nothing was answered that would leave the file further behind. By how much it
// was, is counted.
func TestAKillLosesTheLastSecondAtMost(t *testing.T) {
	t.Parallel()
	rounds := testsize.Of(3, 20)
	file := filepath.Join(t.TempDir(), "state.json")
	for round := range rounds {
		command, settings := start(t, "-state", file)
		token := issue(t, settings)
		stop := make(chan struct{})
		var mu sync.Mutex
		var answered []written
		var writers sync.WaitGroup
		for writer := range 4 {
			writers.Go(func() {
				for n := 0; ; n++ {
					address, bearer := settings.ControlURL+"/patients", ""
					body := "{}"
					if writer%2 == 0 {
						address, bearer = settings.BaseURL+"/clinic/patients", token
						body = `{"first_name":"A","last_name":"B","email":"` + strconv.Itoa(round) + "." + strconv.Itoa(writer) + "." + strconv.Itoa(n) + `@example.org"}`
					}
					one, ok := write(address, bearer, body)
					if !ok {
						return // it was killed
					}
					mu.Lock()
					answered = append(answered, one)
					mu.Unlock()
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		// A second and a half of writing, or of waiting for it.
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) > 100 && answered[len(answered)-1].answered.Sub(answered[0].sent) > 1500*time.Millisecond
		}, time.Minute, 10*time.Millisecond)
		require.NoError(t, command.Process.Kill())
		killed := time.Now()
		require.Error(t, command.Wait())
		close(stop)
		writers.Wait()
		judge(t, round, inFile(t, file), answered, killed)
	}
	command, _ := start(t, "-state", file)
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.NoError(t, command.Wait())
}

func judge(t *testing.T, round int, there map[string]bool, answered []written, killed time.Time) {
	t.Helper()
	var last, behind time.Time
	lost, oldest := 0, time.Duration(0)
	for _, one := range answered {
		if one.sent.After(last) {
			last = one.sent
		}
		if !there[one.id] {
			lost++
			oldest = max(oldest, killed.Sub(one.answered))
			if behind.IsZero() || one.answered.Before(behind) {
				behind = one.answered
			}
		}
	}
	t.Logf("round %d: %d of %d answered writes lost, the oldest %s before the kill", round, lost, len(answered), oldest.Round(time.Millisecond))
	if lost > 0 {
		assert.LessOrEqual(t, last.Sub(behind), stateLag, "round %d", round)
	}
}

// issue has a user consent to the application.
func issue(t *testing.T, settings control.Settings) string {
	t.Helper()
	answer, err := http.Post(settings.ControlURL+"/tokens", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var token struct {
		Value string `json:"access_token"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&token))
	require.NotEmpty(t, token.Value)
	return token.Value
}

func write(address, bearer, body string) (one written, ok bool) {
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
	var made struct{ Patient struct{ ID string } }
	if err != nil || json.Unmarshal(content, &made) != nil || made.Patient.ID == "" {
		return one, false
	}
	one.id = made.Patient.ID
	return one, true
}

// However slowly the file is written, an answer waits where the file would be more
// than a second behind it.
func TestAnswersWaitForTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stateFile{full: make(chan struct{}, 1), saved: make(chan struct{})}
		s.hold(t.Context())
		time.Sleep(stateLag)
		s.hold(t.Context()) // a second after the first one that is not in the file
		time.Sleep(time.Nanosecond)
		given := make(chan struct{})
		go func() { s.hold(t.Context()); close(given) }()
		synctest.Wait()
		assert.Len(t, s.full, 1, "it asks for the file to be written")
		select {
		case <-given:
			t.Fatal("the answer was given")
		default:
		}
		s.mark(func() { s.since = time.Time{} }) // a snapshot is taken
		synctest.Wait()
		select {
		case <-given:
			t.Fatal("the answer was given before the file was written")
		default:
		}
		s.mark(func() { s.unsaved = s.since })
		<-given
		s.mark(func() { s.ended = true })
		ctx, gone := context.WithCancel(t.Context())
		late := make(chan struct{})
		go func() { s.hold(ctx); close(late) }()
		synctest.Wait()
		select {
		case <-late:
			t.Fatal("an answer was given after the end")
		default:
		}
		gone() // with the connection
		<-late
	})
}
