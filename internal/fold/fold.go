// Package fold normalizes text for comparison: it ignores case and accents.
package fold

import (
	"strings"
	"unicode"
)

// Letter returns r in lower case and without its accent, in ASCII if possible. The table
// covers languages with Latin letters, Greek accents, and the Greek letters in substance
// names. Ligatures, full-width characters, and superscript and subscript digits become their
// plain characters. Any other letter is only converted to lower case.
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

// The full-width forms of ASCII, in the same order.
const (
	fullWidthFirst = '！' // !
	fullWidthLast  = '～' // ~
)

// Name returns the folded letters and digits of a name. It ignores spaces, hyphens,
// apostrophes and combining accents.
func Name(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteString(Letter(r))
		}
	}
	return b.String()
}

// ASCII returns text with its ASCII letters in lower case. Other letters keep their case, so
// different email addresses stay different.
func ASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, text)
}

// plainLetters maps letters and digits to the ones that people type instead. The standard
// library has no Unicode normalization.
var plainLetters = func() map[rune]string {
	all := map[rune]string{}
	for plain, letters := range map[string]string{
		"a": "àáâãäåāăąǎảạắằẳẵặấầẩẫậ", "ae": "æǽ", "c": "çćĉċč", "d": "ðďđ", "e": "èéêëēĕėęěẽẻẹếềểễệ", "g": "ĝğġģ", "h": "ĥħ",
		"i": "ìíîïĩīĭįıǐỉị", "ij": "ĳ", "j": "ĵ", "k": "ķ", "l": "ĺļľŀł", "n": "ñńņňŋ", "o": "òóôõöøōŏőǒỏọốồổỗộơớờởỡợ", "oe": "œ",
		"r": "ŕŗř", "s": "śŝşšș", "ss": "ß", "t": "ţťŧț", "th": "þ", "u": "ùúûüũūŭůűųǔủụưứừửữự", "w": "ŵẁẃẅ", "y": "ýÿŷỳỷỹỵ", "z": "źżž",
		"alpha": "αά", "beta": "β", "gamma": "γ", "delta": "δ", "omega": "ωώ",
		"ε": "έ", "η": "ή", "ι": "ίϊΐ", "μ": "\u00B5", "ο": "ό", "σ": "ς", "υ": "ύϋΰ",
		"":   "\u02BB\u02BC", // apostrophes, which Unicode counts as letters
		"ff": "\uFB00", "fi": "\uFB01", "fl": "\uFB02", "ffi": "\uFB03", "ffl": "\uFB04", "st": "\uFB05\uFB06",
		"0": "⁰₀", "1": "¹₁", "2": "²₂", "3": "³₃", "4": "⁴₄", "5": "⁵₅", "6": "⁶₆", "7": "⁷₇", "8": "⁸₈", "9": "⁹₉",
	} {
		for _, letter := range letters {
			all[letter] = plain
		}
	}
	return all
}()
