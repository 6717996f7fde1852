// Package leak finds secrets in texts such as logs: as they are, or URL-, base64- or
// hex-encoded.
package leak

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Secret is a value that must not be seen, and what it is.
type Secret struct{ What, Value string }

// form is one way in which a secret may be written.
type form struct {
	*Secret
	text    string
	encoded string // "", or how
	word    bool   // it counts only as a whole word
}

// Search finds many secrets in one pass over a text: every form is filed under its
// first three bytes.
type Search map[[3]byte][]form

// shortest is how long a value has to be for its encoded forms to tell anything.
const shortest = 6

// New returns a search for the secrets. Empty values, and forms of less than three
// bytes, are left out.
func New(secrets []Secret) Search {
	search := make(Search, len(secrets))
	for i := range secrets {
		for _, f := range secrets[i].forms() {
			if len(f.text) >= 3 {
				key := [3]byte([]byte(f.text[:3]))
				search[key] = append(search[key], f)
			}
		}
	}
	return search
}

// forms lists how a value may be written.
func (s *Secret) forms() []form {
	if s.Value == "" {
		return nil
	}
	forms := []form{{s, s.Value, "", wordlike(s.Value)}}
	for _, escaped := range []string{url.QueryEscape(s.Value), url.PathEscape(s.Value)} {
		if escaped != s.Value {
			forms = append(forms, form{s, escaped, "URL-encoded", false}, form{s, lowerEscapes(escaped), "URL-encoded", false})
		}
	}
	if len(s.Value) < shortest {
		return forms
	}
	digits := hex.EncodeToString([]byte(s.Value))
	forms = append(forms, form{s, digits, "in hexadecimal", false}, form{s, strings.ToUpper(digits), "in hexadecimal", false})
	for _, text := range base64Cores(s.Value) {
		forms = append(forms, form{s, text, "in base64", false})
	}
	return forms
}

// lowerEscapes writes %2F as %2f, which means the same.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// base64Cores are the characters that a value has for certain inside the base64 of
// a longer text, at each of the three places where it can begin, in both alphabets.
func base64Cores(value string) (cores []string) {
	for offset := range 3 {
		padded := append(make([]byte, offset), value...)
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := alphabet.EncodeToString(padded)
			from, to := (offset*8+5)/6, len(padded)*8/6 // characters made of the value's bits alone
			if core := text[from:to]; len(core) >= shortest && (len(cores) == 0 || cores[len(cores)-1] != core) {
				cores = append(cores, core)
			}
		}
	}
	return cores
}

// wordlike values may be part of another word by accident.
func wordlike(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

// Find says which secrets a text holds, and where: once for each secret and form. The
// number names the text, and the value itself is not shown.
func (search Search) Find(number int, text string) (findings []string) {
	seen := make(map[string]bool)
	for at := 0; at+3 <= len(text); at++ {
		for _, form := range search[[3]byte([]byte(text[at:at+3]))] {
			if !strings.HasPrefix(text[at:], form.text) || form.word && !isWord(text, at, len(form.text)) {
				continue
			}
			if name := form.What + form.encoded; !seen[name] {
				seen[name] = true
				findings = append(findings, describe(number, text, at, form))
			}
		}
	}
	return findings
}

// isWord reports that no letter stands before or behind a part of a text.
func isWord(text string, at, n int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at+n:])
	return !unicode.IsLetter(before) && !unicode.IsLetter(after)
}

// describe says where a value stands, and shows what is around it.
func describe(number int, text string, at int, form form) string {
	line := 1 + strings.Count(text[:at], "\n")
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	end := at + len(form.text)
	if next := strings.IndexByte(text[end:], '\n'); next >= 0 {
		text = text[:end+next]
	}
	const around = 40
	before, after := text[max(begin, at-around):at], text[end:min(len(text), end+around)]
	how := ""
	if form.encoded != "" {
		how = ", " + form.encoded + ","
	}
	return fmt.Sprintf("%s%s in text %d, line %d: %q", form.What, how, number, line, before+"█"+after)
}
