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
//     ideograph is a part of its own, because its language puts no spaces between words. So is
//     the word after a French elision: ail in l'ail.
//
// An index finds a typed word from the beginning of each part on, across the spaces between
// words. It therefore finds Omega 3, Omega-3 and Omega3 by omega3, by omega and by 3. A query
// is not split into parts, but each of its words also matches together with the previous word:
// omega 3 finds Omega3, too. A name with & or + between two words also has the word and.

// word is a word of a text, converted for comparison.
type word struct {
	text string

	// joined reports whether the word may be written together with the previous word. Two
	// numbers may if only spaces or hyphens separate them: 10 000, but not 2.5.
	joined bool

	// and reports whether & or + stands between the word and the previous word.
	and bool

	// elided is the length of an elided article or pronoun at the start, such as l in l'ail,
	// or 0.
	elided int
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
		and := len(all) > 0 && strings.ContainsAny(text[end:start], "&+")
		all = append(all, word{unmarked.Replace(text[start:until]), joined, and, elision(text[start:until])})
		start, end = -1, until
	}
	for i, r := range text {
		switch {
		case partOf(r) != noPart:
			if start < 0 {
				start = i
			}
		case r == '\'' && start >= 0:
		case r == ',' && start >= 0 && isDigit(text[i-1]) && thousands(text[i+1:]):
		default:
			add(i)
		}
	}
	add(len(text))
	return all
}

// unmarked removes the marks inside of words.
var unmarked = strings.NewReplacer(",", "", "'", "")

// elision returns the length of an elided article or pronoun at the start of a word, such as l
// in l'ail and qu in qu'il, or 0.
func elision(word string) int {
	before, after, _ := strings.Cut(word, "'")
	if letter := len(before) == 1 && !isDigit(before[0]); (letter || before == "qu") && after != "" {
		return len(before)
	}
	return 0
}

// folded returns a text converted for comparison, with its separators and apostrophes.
func folded(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			b.WriteByte(byte(r - 'A' + 'a'))
		case r < utf8.RuneSelf:
			b.WriteByte(byte(r))
		case strings.ContainsRune(apostrophes, r):
			b.WriteByte('\'')
		case unicode.Is(unicode.Mn, r): // a combining accent
		default:
			b.WriteString(fold.Letter(r))
		}
	}
	return b.String()
}

// apostrophes are the characters in place of an apostrophe. Unicode counts all but the first as
// letters.
const apostrophes = "’\u02BB\u02BC"

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
		return !unicode.IsSpace(r) && r != '-' && r != '‐' && r != '‑' && r != '\''
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

// parts returns the offsets of the parts of the word.
func (w word) parts() (starts []int) {
	before := noPart
	for i, r := range w.text {
		kind := partOf(r)
		if kind != before || kind == ideograph || i == w.elided {
			starts = append(starts, i)
		}
		before = kind
	}
	return starts
}

// maxQuery is the maximum length of a query in bytes. The documentation of SearchOptions repeats it.
const maxQuery = 200

// minCode is the minimum length of a typed code in bytes.
const minCode = 3

// The lengths of barcodes in digits. EAN-8, UPC-A, EAN-13 and GTIN-14 are one number with
// different leading zeros. Scanners add these zeros and spreadsheets remove them.
const (
	minBarcode = 8
	maxBarcode = 14
)

// codeTerms returns the search terms of a SKU or UPC: its text without separators from each
// word on, and the barcode without leading zeros. Both alr0 and 0012 therefore find ALR-0012.
func codeTerms(text string) (terms []string) {
	all := words(text)
	code := join(all)
	at := 0
	for _, w := range all {
		terms = append(terms, code[at:min(len(code), at+maxQuery)])
		at += len(w.text)
	}
	return append(terms, bare(code)...)
}

// typedCodes returns the beginnings of codes that a query can mean.
func typedCodes(typed []word) []string {
	code := join(typed)
	if len(code) < minCode {
		return nil
	}
	return append([]string{code}, bare(code)...)
}

// bare returns a barcode without its leading zeros. It returns nil if the code has none or is
// not a barcode.
func bare(code string) []string {
	digits := strings.TrimLeft(code, "0")
	if len(code) < minBarcode || len(code) > maxBarcode || len(digits) == len(code) || len(digits) < minCode ||
		strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return nil
	}
	return []string{digits}
}

// join returns words without the separators between them.
func join(words []word) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w.text)
	}
	return b.String()
}
