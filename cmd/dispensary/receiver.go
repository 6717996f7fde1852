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

// answers prints the responses of a receiver as they arrive: as JSON, as rows of a table on a
// terminal, or as tab-separated lines.
type answers struct {
	p     *program
	begun bool
	err   error // joined write errors
}

// answerDocument is a response as JSON.
type answerDocument struct {
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

// answerColumns are the widths of all cells of a row except the last.
var answerColumns = []int{8, 7, 6, 9, 8, 36}

var answerHeader = []string{"TIME", "ATTEMPT", "STATUS", "CHALLENGE", "DURATION", "EVENT", "TYPE"}

// add prints the response to one attempt.
func (a *answers) add(answer listen.Answer) {
	problem := ""
	if answer.Err != nil {
		problem = strings.TrimPrefix(oneLine(answer.Err.Error()), listen.ErrNotAcknowledged.Error()+": ")
	}
	if a.p.json {
		a.err = errors.Join(a.err, a.p.printJSON(answerDocument{
			answer.Key.EventID, string(answer.Type), answer.Key.Environment.String(), answer.ClinicID, answer.Key.IntegrationID, answer.CreatedAt,
			answer.Attempt, answer.Status, answer.Challenge, float64(answer.Duration.Microseconds()) / 1000, answer.Err == nil, answer.Dropped, problem,
		}))
		return
	}
	row := answerRow(answer)
	if !a.p.terminal {
		a.write(strings.Join(append(fields(row), problem), "\t") + "\n")
		return
	}
	row = cells(row)
	if !a.begun {
		a.begun = true
		a.line(bold, aligned(answerHeader))
	}
	as := green
	if answer.Err != nil {
		as = red
	}
	a.line(as, aligned(row))
	if problem != "" {
		a.line(as, "          "+problem)
	}
}

// answerRow returns the cells of a response.
func answerRow(answer listen.Answer) []string {
	status, challenge := "-", "no"
	if answer.Status != 0 {
		status = strconv.Itoa(answer.Status)
	}
	if answer.Challenge {
		challenge = "yes"
	}
	return []string{
		time.Now().Format(time.TimeOnly), strconv.Itoa(answer.Attempt), status, challenge,
		answer.Duration.Round(time.Millisecond).String(), answer.Key.EventID, string(answer.Type),
	}
}

// aligned returns cells as one line with columns.
func aligned(row []string) string {
	var text strings.Builder
	for i, width := range answerColumns {
		fmt.Fprintf(&text, "%-*s  ", width, row[i])
	}
	return strings.TrimRight(text.String()+row[len(row)-1], " ")
}

// line writes a styled line.
func (a *answers) line(as style, text string) {
	a.err = errors.Join(a.err, a.p.styled(as, text))
	a.write("\n")
}

func (a *answers) write(text string) {
	_, err := fmt.Fprint(a.p.out, text)
	a.err = errors.Join(a.err, err)
}
