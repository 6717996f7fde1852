// Package fold folds text for comparison: without case and without accents.
package fold

import (
	"strings"
	"unicode"
)

// Letter returns a letter in lower case and without its accent, as ASCII where it can.
// The table covers the languages written in Latin letters, Greek accents, and the Greek
// letters in the names of substances. Ligatures, full-width characters, superscript and
// subscript digits become the characters that they stand for. Any other letter only loses
// its case.
func Letter(r rune) string {
	if fullWidthFirst <= r && r <= fullWidthLast {
		r -= fullWidthFirst - '!'
	}
	r = unicode.ToLower(r)
	if plain, ok := plainLetters[r]; ok {
		return plain
	}
	return string(r)
}

// The full-width forms of ASCII, in its order.
const (
	fullWidthFirst = '！' // !
	fullWidthLast  = '～' // ~
)

// Name returns the letters and digits of a name, folded. Spaces, hyphens, apostrophes and
// combining accents are ignored.
func Name(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteString(Letter(r))
		}
	}
	return b.String()
}

// ASCII returns text with its ASCII letters in lower case. All other letters keep their
// case, so that different addresses stay different.
func ASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, text)
}

// plainLetters maps letters and digits to those that people type instead. The standard
// library has no Unicode normalization.
var plainLetters = func() map[rune]string {
	all := map[rune]string{}
	for plain, letters := range map[string]string{
		"a": "àáâãäåāăąǎảạắằẳẵặấầẩẫậ", "ae": "æǽ", "c": "çćĉċč", "d": "ðďđ", "e": "èéêëēĕėęěẽẻẹếềểễệ", "g": "ĝğġģ", "h": "ĥħ",
		"i": "ìíîïĩīĭįıǐỉị", "ij": "ĳ", "j": "ĵ", "k": "ķ", "l": "ĺļľŀł", "n": "ñńņňŋ", "o": "òóôõöøōŏőǒỏọốồổỗộơớờởỡợ", "oe": "œ",
		"r": "ŕŗř", "s": "śŝşšș", "ss": "ß", "t": "ţťŧț", "th": "þ", "u": "ùúûüũūŭůűųǔủụưứừửữự", "w": "ŵẁẃẅ", "y": "ýÿŷỳỷỹỵ", "z": "źżž",
		"alpha": "αά", "beta": "β", "gamma": "γ", "delta": "δ", "omega": "ωώ",
		"ε": "έ", "η": "ή", "ι": "ίϊΐ", "μ": "\u00B5", "ο": "ό", "σ": "ς", "υ": "ύϋΰ",
		"ff": "\uFB00", "fi": "\uFB01", "fl": "\uFB02", "ffi": "\uFB03", "ffl": "\uFB04", "st": "\uFB05\uFB06",
		"0": "⁰₀", "1": "¹₁", "2": "²₂", "3": "³₃", "4": "⁴₄", "5": "⁵₅", "6": "⁶₆", "7": "⁷₇", "8": "⁸₈", "9": "⁹₉",
	} {
		for _, letter := range letters {
			all[letter] = plain
		}
	}
	return all
}()
