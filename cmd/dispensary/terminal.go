package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// terminal writes to a terminal. It escapes each character that could steer the terminal or
// reorder its line as \u and its number, because texts come from other machines. Valid JSON has
// these characters in strings only, so JSON stays the same JSON.
type terminal struct {
	io.Writer
	held []byte // start of a character that the next write ends
}

// guard keeps texts from steering a terminal. A stdout that is no terminal gets exact bytes.
// Stderr is for people, who may read it later from a log, so its texts are always escaped.
func (p *program) guard() {
	p.errOut = &terminal{Writer: p.errOut}
	if p.terminal {
		p.out = &terminal{Writer: p.out}
	}
}

// unguarded returns the writer below a terminal, for a program of the user.
func unguarded(w io.Writer) io.Writer {
	if t, is := w.(*terminal); is {
		return t.Writer
	}
	return w
}

// Write implements [io.Writer].
func (t *terminal) Write(text []byte) (int, error) {
	whole := append(t.held, text...)
	end := len(whole)
	for end > 0 && !endsWhole(whole[:end]) {
		end--
	}
	t.held = append([]byte(nil), whole[end:]...)
	if _, err := io.WriteString(t.Writer, printable(string(whole[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// endsWhole reports whether a text does not end within a character or a line break.
func endsWhole(text []byte) bool {
	last := max(0, len(text)-utf8.UTFMax)
	for i := len(text) - 1; i >= last; i-- {
		if utf8.RuneStart(text[i]) {
			return utf8.FullRune(text[i:]) && text[len(text)-1] != '\r'
		}
	}
	return true // it is no UTF-8
}

// sequence writes a text between control sequences of this program.
func (t *terminal) sequence(before, text, after string) error {
	_, err := io.WriteString(t.Writer, before+printable(text)+after)
	return err
}

// printable escapes the characters of a text that could steer a terminal. It keeps line breaks
// and tabs.
func printable(text string) string {
	if strings.IndexFunc(text, steers) < 0 && utf8.ValidString(text) {
		return text
	}
	var made strings.Builder
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		switch {
		case !steers(r):
			made.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&made, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&made, `\u%04x`, r)
		}
	}
	return made.String()
}

// steers reports whether a character controls a terminal, breaks its line in a way of its own,
// or is invisible. Two of the invisible ones are part of words and emoji.
func steers(r rune) bool {
	const joiner, nonJoiner = '\u200D', '\u200C'
	switch r {
	case '\n', '\t', joiner, nonJoiner:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// eraseLine removes the line of a terminal at which the cursor is.
const eraseLine = "\r\x1b[K"

// erase removes the current line of stdout, if it is a terminal.
func (p *program) erase() error {
	if t, is := p.out.(*terminal); is {
		return t.sequence(eraseLine, "", "")
	}
	return nil
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
	t, is := p.out.(*terminal)
	if !is || p.noColor || unwanted != "" || kind == "dumb" {
		_, err := io.WriteString(p.out, text)
		return err
	}
	return t.sequence("\x1b["+string(as)+"m", text, "\x1b[0m")
}
