package main

import (
	"io"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
)

// guard keeps texts from steering a terminal. A stdout that is no terminal gets exact bytes.
// Stderr is for people, who may read it later from a log, so its texts are always escaped.
func (p *program) guard() {
	p.errOut = terminal.NewWriter(p.errOut)
	if p.terminal {
		p.out = terminal.NewWriter(p.out)
	}
}

// style is a way to print on a terminal.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// styled prints a text in a style, if stdout has styles: see no-color.org.
func (p *program) styled(as style, text string) error {
	unwanted, _ := p.lookup("NO_COLOR")
	kind, _ := p.lookup("TERM")
	t, is := p.out.(*terminal.Writer)
	if !is || p.noColor || unwanted != "" || kind == "dumb" {
		_, err := io.WriteString(p.out, text)
		return err
	}
	return t.Sequence("\x1b["+string(as)+"m", text, "\x1b[0m")
}
