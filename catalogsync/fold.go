package catalogsync

import (
	"strings"
	"unicode"

	"github.com/dispensary-go/dispensary/internal/fold"
)

// word is a part of a text in the form in which words are compared: lower case, without
// accents.
type word struct {
	text string

	// joined says that only a hyphen is between this word and the one before.
	joined bool
}

// words cuts a text at everything that is no letter, digit or apostrophe.
func words(text string) []word {
	var all []word
	var letters []byte
	hyphens, others := 0, 1 // between this word and the one before
	end := func() {
		if len(letters) > 0 {
			all = append(all, word{string(letters), hyphens == 1 && others == 0})
			letters, hyphens, others = letters[:0], 0, 0
		}
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			letters = append(letters, byte(r))
		case 'A' <= r && r <= 'Z':
			letters = append(letters, byte(r-'A'+'a'))
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			letters = append(letters, fold.Letter(r)...)
		case r == '\'' || r == '’' || unicode.Is(unicode.Mn, r): // nature's; an accent of its own
		case r == '-' || r == '‐' || r == '‑':
			end()
			hyphens++
		default:
			end()
			others++
		}
	}
	end()
	return all
}

// join is a code, such as an SKU, without its separators. Cut says where its parts begin.
func join(parts []word) (code string, cut []int) {
	var b strings.Builder
	for _, part := range parts {
		cut = append(cut, b.Len())
		b.WriteString(part.text)
	}
	return b.String(), cut
}
