package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
)

// receiverSecrets are the webhook secret and the challenge token of a receiver.
type receiverSecrets struct {
	Secret    string `json:"secret"`
	Challenge string `json:"challenge"`
}

// localReceiver returns the secrets of this machine, and creates them on first use. They only
// protect a program in development, and stay the same so that it is configured once.
func (p *program) localReceiver() (r receiverSecrets, err error) {
	folder, err := p.configFolder()
	if err != nil {
		return r, err
	}
	name := filepath.Join(folder, "receiver.json")
	kept, err := os.ReadFile(name)
	switch {
	case err == nil && json.Unmarshal(kept, &r) == nil && r.Secret != "" && r.Challenge != "":
		return r, nil
	case err == nil:
		return r, fmt.Errorf("%s is damaged: delete it to create new secrets", name)
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	}
	r = receiverSecrets{Secret: "local_" + rand.Text(), Challenge: "local_" + rand.Text()}
	content, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return r, err
	}
	return r, os.WriteFile(name, append(content, '\n'), 0o600)
}

// responses prints the responses of a receiver as they arrive: as JSON, as rows of a table on a
// terminal, or as tab-separated lines.
type responses struct {
	p     *program
	begun bool
	err   error // joined write errors
}

// responseDocument is a response as JSON.
type responseDocument struct {
	EventID       string    `json:"event_id"`
	Type          string    `json:"type"`
	Environment   string    `json:"environment"`
	ClinicID      string    `json:"clinic_id,omitempty"`
	IntegrationID string    `json:"integration_id,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	Attempt       int       `json:"attempt"`
	Status        int       `json:"status"`
	Challenge     bool      `json:"challenge"`
	DurationMS    float64   `json:"duration_ms"`
	Done          bool      `json:"done"`
	Dropped       bool      `json:"dropped,omitempty"`
	Error         string    `json:"error,omitempty"`
}

// responseColumns are the widths of all cells of a row except the last.
var responseColumns = []int{8, 7, 6, 9, 8, 36}

var responseHeader = []string{"TIME", "ATTEMPT", "STATUS", "CHALLENGE", "DURATION", "EVENT", "TYPE"}

// add prints the response to one attempt.
func (a *responses) add(response listen.Response) {
	problem := ""
	if response.Err != nil {
		problem = strings.TrimPrefix(oneLine(response.Err.Error()), listen.ErrNotAcknowledged.Error()+": ")
	}
	if a.p.json {
		a.err = errors.Join(a.err, a.p.printJSON(responseDocument{
			response.Key.EventID, string(response.Type), response.Key.Environment.String(), response.ClinicID, response.Key.IntegrationID, response.CreatedAt,
			response.Attempt, response.Status, response.Challenge, float64(response.Duration.Microseconds()) / 1000, response.Err == nil, response.Dropped, problem,
		}))
		return
	}
	row := responseRow(response)
	if !a.p.terminal {
		a.write(strings.Join(append(fields(row), problem), "\t") + "\n")
		return
	}
	row = cells(row)
	if !a.begun {
		a.begun = true
		a.line(bold, aligned(responseHeader))
	}
	as := green
	if response.Err != nil {
		as = red
	}
	a.line(as, aligned(row))
	if problem != "" {
		a.line(as, "          "+problem)
	}
}

// responseRow returns the cells of a response.
func responseRow(response listen.Response) []string {
	status, challenge := "-", "no"
	if response.Status != 0 {
		status = strconv.Itoa(response.Status)
	}
	if response.Challenge {
		challenge = "yes"
	}
	return []string{
		time.Now().Format(time.TimeOnly), strconv.Itoa(response.Attempt), status, challenge,
		response.Duration.Round(time.Millisecond).String(), response.Key.EventID, string(response.Type),
	}
}

// aligned returns cells as one line with columns.
func aligned(row []string) string {
	var text strings.Builder
	for i, width := range responseColumns {
		fmt.Fprintf(&text, "%-*s  ", width, row[i])
	}
	return strings.TrimRight(text.String()+row[len(row)-1], " ")
}

// line writes a styled line.
func (a *responses) line(as style, text string) {
	a.err = errors.Join(a.err, a.p.styled(as, text))
	a.write("\n")
}

func (a *responses) write(text string) {
	_, err := fmt.Fprint(a.p.out, text)
	a.err = errors.Join(a.err, err)
}
