package catalogsync

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/internal/fold"
)

// Names, queries and codes are split in the same way. For comparison, a text is converted to
// lower case without accents, and its ligatures, subscripts and full-width characters are
// replaced: see [fold.Letter]. The text then consists of words and their parts:
//
//   - A word consists of letters and digits. Apostrophes and combining accents are ignored,
//     and so is the comma in 5,000. Every other character ends a word.
//   - A part of a word consists of letters only or of digits only: omega and 3 in omega3. An
//     ideograph is a part of its own, because its language puts no spaces between words.
//
// An index finds a typed word from the beginning of each part on, across the spaces between
// words. It therefore finds Omega 3, Omega-3 and Omega3 by omega3, by omega and by 3. A query
// is not split into parts, but each of its words also matches together with the previous word:
// omega 3 finds Omega3, too.

// word is a word of a text, converted for comparison.
type word struct {
	text string

	// joined reports whether the word may be written together with the previous word. Two
	// numbers may if only spaces or hyphens separate them: 10 000, but not 2.5.
	joined bool
}

// words returns the words of a text.
func words(text string) (all []word) {
	text = folded(text)
	start, end := -1, 0 // start of this word, and end of the previous one
	add := func(until int) {
		if start < 0 {
			return
		}
		joined := len(all) > 0 && !(separate(text[end:start]) && isDigit(text[end-1]) && isDigit(text[start]))
		all = append(all, word{strings.ReplaceAll(text[start:until], ",", ""), joined})
		start, end = -1, until
	}
	for i, r := range text {
		switch {
		case partOf(r) != noPart:
			if start < 0 {
				start = i
			}
		case r == ',' && start >= 0 && isDigit(text[i-1]) && thousands(text[i+1:]):
		default:
			add(i)
		}
	}
	add(len(text))
	return all
}

// folded returns a text converted for comparison, with its separators.
func folded(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			b.WriteByte(byte(r - 'A' + 'a'))
		case r == '\'':
		case r < utf8.RuneSelf:
			b.WriteByte(byte(r))
		case r == '’' || unicode.Is(unicode.Mn, r): // nature’s, a combining accent
		default:
			b.WriteString(fold.Letter(r))
		}
	}
	return b.String()
}

// thousands reports whether the text after a comma begins with a group of three digits.
func thousands(after string) bool {
	digits := 0
	for digits < len(after) && isDigit(after[digits]) {
		digits++
	}
	return digits == 3
}

// separate reports whether separators contains more than spaces and hyphens.
func separate(separators string) bool {
	return strings.ContainsFunc(separators, func(r rune) bool {
		return !unicode.IsSpace(r) && r != '-' && r != '‐' && r != '‑'
	})
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// part is the kind of a part of a word.
type part uint8

const (
	noPart part = iota
	letters
	digits
	ideograph
)

// partOf returns the kind of part that a character belongs to.
func partOf(r rune) part {
	switch {
	case 'a' <= r && r <= 'z':
		return letters
	case '0' <= r && r <= '9':
		return digits
	case r < utf8.RuneSelf:
		return noPart
	case unicode.Is(unicode.Han, r):
		return ideograph
	case unicode.IsLetter(r):
		return letters
	case unicode.IsDigit(r):
		return digits
	}
	return noPart
}

// parts returns the offsets of the parts of a word.
func parts(word string) (starts []int) {
	before := noPart
	for i, r := range word {
		kind := partOf(r)
		if kind != before || kind == ideograph {
			starts = append(starts, i)
		}
		before = kind
	}
	return starts
}
