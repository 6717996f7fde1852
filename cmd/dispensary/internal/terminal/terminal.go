// Package terminal prints text from other machines to a terminal safely, and quotes it for a shell.
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

// Writer writes to a terminal. Text from other machines may contain characters that control
// the terminal or reorder a line, so Writer escapes each of these as \u and its number. Valid
// JSON has them only inside strings, so it keeps its value. A Writer is safe for concurrent
// use.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	held []byte // start of a character that the next write completes
}

// NewWriter returns a Writer to a terminal, or to a log for people.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unguarded returns the writer below w if w is a [Writer], and w itself otherwise.
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
	all := append(t.held, text...)
	end := len(all)
	for end > 0 && !isComplete(all[:end]) {
		end--
	}
	t.held = append([]byte(nil), all[end:]...)
	if _, err := io.WriteString(t.to, Printable(string(all[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// isComplete reports whether text does not end inside a character or a line break.
func isComplete(text []byte) bool {
	last := max(0, len(text)-utf8.UTFMax)
	for i := len(text) - 1; i >= last; i-- {
		if utf8.RuneStart(text[i]) {
			return utf8.FullRune(text[i:]) && text[len(text)-1] != '\r'
		}
	}
	return true // text is not UTF-8
}

// Sequence writes text between two control sequences of this program. It escapes text only.
func (t *Writer) Sequence(before, text, after string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.to, before+Printable(text)+after)
	return err
}

// Printable escapes the characters of text that could control a terminal, as [Writer] does. It
// keeps tabs and line breaks, and shortens CR LF to LF.
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

// steers reports whether a character controls a terminal, breaks a line unlike LF, or is
// invisible. The two joiners are invisible but belong to words and emoji, so they do not
// count.
func steers(r rune) bool {
	const joiner, nonJoiner = '\u200D', '\u200C'
	switch r {
	case '\n', '\t', joiner, nonJoiner:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Quote quotes text as a word for a POSIX shell.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
