// Package fold folds text for comparison: without case and without accents.
package fold

import (
	"strings"
	"unicode"
)

// Letter returns a letter in lower case and without its accent, as ASCII where it can.
// The table covers the languages written in Latin letters, and the Greek letters in the
// names of substances. Any other letter only loses its case.
func Letter(r rune) string {
	r = unicode.ToLower(r)
	if plain, ok := plainLetters[r]; ok {
		return plain
	}
	return string(r)
}

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

// plainLetters maps accented letters to the letters that people type instead. The
// standard library has no Unicode normalization.
var plainLetters = func() map[rune]string {
	all := map[rune]string{}
	for plain, letters := range map[string]string{
		"a": "àáâãäåāăąǎảạắằẳẵặấầẩẫậ", "ae": "æǽ", "c": "çćĉċč", "d": "ðďđ", "e": "èéêëēĕėęěẽẻẹếềểễệ", "g": "ĝğġģ", "h": "ĥħ",
		"i": "ìíîïĩīĭįıǐỉị", "ij": "ĳ", "j": "ĵ", "k": "ķ", "l": "ĺļľŀł", "n": "ñńņňŋ", "o": "òóôõöøōŏőǒỏọốồổỗộơớờởỡợ", "oe": "œ",
		"r": "ŕŗř", "s": "śŝşšș", "ss": "ß", "t": "ţťŧț", "th": "þ", "u": "ùúûüũūŭůűųǔủụưứừửữự", "w": "ŵẁẃẅ", "y": "ýÿŷỳỷỹỵ", "z": "źżž",
		"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "omega": "ω",
	} {
		for _, letter := range letters {
			all[letter] = plain
		}
	}
	return all
}()
