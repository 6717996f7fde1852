package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

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
	if content, err = textfile.Decode(content); err != nil {
		return dispensary.Secret{}, fmt.Errorf("%s: the file %w", flag, err)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		return dispensary.Secret{}, fmt.Errorf("%s %s: the file is empty", flag, name)
	}
	return dispensary.NewSecret(secret), nil
}
