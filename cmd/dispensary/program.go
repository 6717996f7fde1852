package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// maxColumns is the width of running text in characters. Longer lines are hard to read.
const maxColumns = 100

// program is the command and its surroundings. Tests replace the surroundings to run it in their
// own process.
type program struct {
	surroundings
	in          io.Reader
	out, errOut io.Writer
	cacheDir    func() (string, error) // of the user
	terminal    bool                   // out is a terminal
	columns     int                    // width of running text: that of the terminal, up to maxColumns
	asks        bool                   // in is a terminal, so that the user can be asked
	keyring     keyringStore

	json, noColor bool // flags of all commands

	sent atomic.Bool // an HTTP request of the command has had a connection
}

// surroundings are the places of the command's configuration.
type surroundings struct {
	environ   []string               // as os.Environ returns it
	configDir func() (string, error) // of the user

	// Flags of all commands.
	config, profile string
	production      bool
}

// lookup returns the value of a variable, or "".
func (s *surroundings) lookup(name string) string {
	for _, variable := range slices.Backward(s.environ) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// print prints document with --json. Otherwise it prints rows: as a table with header on a
// terminal, and as tab-separated lines elsewhere.
func (p *program) print(document any, header []string, rows [][]string) error {
	if p.json {
		return p.printJSON(document)
	}
	if !p.terminal {
		for _, row := range rows {
			if _, err := fmt.Fprintln(p.out, strings.Join(fields(row), "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	var aligned strings.Builder
	table := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(table, strings.Join(cells(row), "\t"))
	}
	_ = table.Flush() // a strings.Builder never fails
	if len(rows) == 0 {
		aligned.WriteString("(none)\n")
	}
	first, rest, _ := strings.Cut(aligned.String(), "\n")
	err := p.styled(bold, strings.TrimRight(first, " "))
	_, restErr := fmt.Fprint(p.out, "\n", rest)
	return cmp.Or(err, restErr)
}

// printJSON prints a document on one line.
func (p *program) printJSON(document any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// cells returns printable texts without line breaks, for a line of a table.
func cells(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = terminal.Printable(strings.Join(strings.Fields(text), " "))
	}
	return made
}

// breaks replaces characters that would end a cell of a tab-separated line.
var breaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// fields returns texts for a tab-separated line. It replaces only tabs and line breaks.
func fields(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = breaks.Replace(text)
	}
	return made
}

// guard prevents text from controlling a terminal. If stdout is not a terminal, it gets exact
// bytes. Text on stderr is always escaped, because users may later view a log of it on a terminal.
func (p *program) guard() {
	p.errOut = terminal.NewWriter(p.errOut)
	if p.terminal {
		p.out = terminal.NewWriter(p.out)
	}
}

// style is the parameter of an SGR escape sequence.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// styled prints text in a style. It omits the style if stdout is not a terminal, TERM is dumb, or
// --no-color or NO_COLOR is set (see no-color.org).
func (p *program) styled(as style, text string) error {
	unwanted := p.lookup("NO_COLOR")
	kind := p.lookup("TERM")
	t, is := p.out.(*terminal.Writer)
	if !is || p.noColor || unwanted != "" || kind == "dumb" {
		_, err := io.WriteString(p.out, text)
		return err
	}
	return t.Sequence("\x1b["+string(as)+"m", text, "\x1b[0m")
}

// timeText returns t in UTC as RFC 3339, or a dash if t is zero.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// age returns a duration in one rounded-down unit: s, min, h or d.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " d"
}

// readSecret reads a line of stdin. A terminal does not show the input.
func (p *program) readSecret(ctx context.Context) (string, error) {
	terminal, shown := -1, func() {}
	if file, is := p.in.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		terminal = int(file.Fd())
		if before, err := term.GetState(terminal); err == nil {
			shown = func() { _ = term.Restore(terminal, before) }
		}
	}
	read := p.readLine
	if terminal >= 0 {
		read = func() (string, error) {
			text, err := term.ReadPassword(terminal)
			_, _ = fmt.Fprintln(p.errOut)
			return string(text), err
		}
	}
	text, err := await(ctx, read)
	if ctx.Err() != nil {
		shown() // ReadPassword still waits, and would leave the echo of the shell disabled
		return "", ctx.Err()
	}
	if text = strings.TrimSpace(text); err != nil || text == "" {
		return "", errors.New("the input is empty")
	}
	return text, nil
}

// readLine reads a line of stdin. The last line may lack its line break.
func (p *program) readLine() (string, error) {
	text, err := bufio.NewReader(p.in).ReadString('\n')
	if err == io.EOF && text != "" {
		err = nil
	}
	return text, err
}

// readFile reads a file, or stdin for "-".
func (p *program) readFile(ctx context.Context, name string) ([]byte, error) {
	if name == "-" {
		return await(ctx, func() ([]byte, error) { return io.ReadAll(p.in) })
	}
	return os.ReadFile(name)
}

// await calls read, which may wait for the user. It returns early if ctx ends.
func await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// secretFile reads a secret from the file of a flag. It removes surrounding blanks, line breaks
// and a byte order mark.
func secretFile(flag, name string) (dispensary.Secret, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return dispensary.Secret{}, fmt.Errorf("%s: %w", flag, err)
	}
	if content, err = environ.DecodeText(content); err != nil {
		return dispensary.Secret{}, fmt.Errorf("%s: the file %w", flag, err)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		return dispensary.Secret{}, fmt.Errorf("%s %s: the file is empty", flag, name)
	}
	return dispensary.NewSecret(secret), nil
}
