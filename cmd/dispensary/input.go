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

// readSecret reads a line of stdin, which a terminal does not show.
func (p *program) readSecret(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	read, shown := make(chan line, 1), func() {}
	terminal := -1
	if file, is := p.in.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		terminal = int(file.Fd())
		if before, err := term.GetState(terminal); err == nil {
			shown = func() { _ = term.Restore(terminal, before) }
		}
	}
	go func() {
		if terminal >= 0 {
			text, err := term.ReadPassword(terminal)
			_, _ = fmt.Fprintln(p.errOut)
			read <- line{string(text), err}
			return
		}
		text, err := bufio.NewReader(p.in).ReadString('\n')
		if err == io.EOF && text != "" {
			err = nil
		}
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		text := strings.TrimSpace(l.text)
		if l.err != nil || text == "" {
			return "", errors.New("nothing was entered")
		}
		return text, nil
	case <-ctx.Done():
		shown() // ReadPassword goes on waiting, and the shell would hide what is typed after us
		return "", ctx.Err()
	}
}

// readFile reads a file, or stdin for "-".
func (p *program) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.in)
	}
	return os.ReadFile(name)
}

// secretFile reads a secret without the line break and the byte order mark that editors add.
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
