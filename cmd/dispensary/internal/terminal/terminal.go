// Package terminal writes texts from other machines to a terminal.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer writes to a terminal. It escapes each character that could steer the terminal or
// reorder its line as \u and its number, because texts come from other machines. Valid JSON has
// these characters in strings only, so JSON stays the same JSON. It is safe for concurrent use.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	held []byte // start of a character that the next write ends
}

// NewWriter returns a writer to a terminal, or to a log that people read.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unguarded returns the writer below w, if w is a [Writer].
func Unguarded(w io.Writer) io.Writer {
	if t, is := w.(*Writer); is {
		return t.to
	}
	return w
}

// Write implements [io.Writer].
func (t *Writer) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	whole := append(t.held, text...)
	end := len(whole)
	for end > 0 && !endsWhole(whole[:end]) {
		end--
	}
	t.held = append([]byte(nil), whole[end:]...)
	if _, err := io.WriteString(t.to, Printable(string(whole[:end]))); err != nil {
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

// Sequence writes a text between control sequences of the program.
func (t *Writer) Sequence(before, text, after string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.to, before+Printable(text)+after)
	return err
}

// Printable escapes the characters of a text that could steer a terminal. It keeps line breaks
// and tabs.
func Printable(text string) string {
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
