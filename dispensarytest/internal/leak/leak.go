// Package leak finds secrets in texts such as logs. It finds plain, URL-encoded, base64 and
// hexadecimal forms.
package leak

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Secret is a value that must not appear in a text, with its description.
type Secret struct{ What, Value string }

// OfPatient returns the texts that identify a patient. A choice, such as the gender, does not.
func OfPatient(whose string, p *model.Patient) []Secret {
	secrets := []Secret{{"the metadata id of " + whose, p.MetadataID}}
	for _, field := range form.Patient(p) {
		if field.Allowed == nil {
			secrets = append(secrets, Secret{"the " + strings.ReplaceAll(field.Name, "_", " ") + " of " + whose, *field.To})
		}
	}
	return secrets
}

// spelling is one way to write a secret.
type spelling struct {
	*Secret
	text    string
	encoded string // the encoding, or ""
	word    bool   // matches only a whole word
}

// Search finds many secrets in one pass over a text. It indexes every spelling by its first
// three bytes.
type Search map[[3]byte][]spelling

// shortest is the length from which an encoded form of a value is significant.
const shortest = 6

// New returns a search for the secrets. It omits empty values and spellings shorter than
// three bytes.
func New(secrets []Secret) Search {
	search := make(Search, len(secrets))
	for i := range secrets {
		for _, f := range secrets[i].spellings() {
			if len(f.text) >= 3 {
				key := [3]byte([]byte(f.text[:3]))
				search[key] = append(search[key], f)
			}
		}
	}
	return search
}

// spellings returns the spellings of a value.
func (s *Secret) spellings() []spelling {
	if s.Value == "" {
		return nil
	}
	all := []spelling{{s, s.Value, "", wordlike(s.Value)}}
	for _, escaped := range []string{url.QueryEscape(s.Value), url.PathEscape(s.Value)} {
		if escaped != s.Value {
			all = append(all, spelling{s, escaped, "URL-encoded", false}, spelling{s, lowerEscapes(escaped), "URL-encoded", false})
		}
	}
	if len(s.Value) < shortest {
		return all
	}
	digits := hex.EncodeToString([]byte(s.Value))
	all = append(all, spelling{s, digits, "in hexadecimal", false}, spelling{s, strings.ToUpper(digits), "in hexadecimal", false})
	for _, text := range base64Cores(s.Value) {
		all = append(all, spelling{s, text, "in base64", false})
	}
	return all
}

// lowerEscapes changes %2F to the equivalent %2f.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// base64Cores returns the characters of a value that are certain in the base64 of a longer
// text. They depend on which of three offsets the value begins at and on the alphabet.
func base64Cores(value string) (cores []string) {
	for offset := range 3 {
		padded := append(make([]byte, offset), value...)
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := alphabet.EncodeToString(padded)
			from, to := (offset*8+5)/6, len(padded)*8/6 // characters that contain only bits of the value
			if core := text[from:to]; len(core) >= shortest && (len(cores) == 0 || cores[len(cores)-1] != core) {
				cores = append(cores, core)
			}
		}
	}
	return cores
}

// wordlike reports whether value could occur in another word by coincidence.
func wordlike(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

// Find returns the secrets in a text with their places, once for each secret and encoding.
// number identifies the text. The findings do not show the value.
func (search Search) Find(number int, text string) (findings []string) {
	seen := make(map[string]bool)
	for at := 0; at+3 <= len(text); at++ {
		for _, found := range search[[3]byte([]byte(text[at:at+3]))] {
			if !strings.HasPrefix(text[at:], found.text) || found.word && !isWord(text, at, len(found.text)) {
				continue
			}
			if name := found.What + found.encoded; !seen[name] {
				seen[name] = true
				findings = append(findings, describe(number, text, at, found))
			}
		}
	}
	return findings
}

// isWord reports whether no letter precedes or follows a part of a text.
func isWord(text string, at, n int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at+n:])
	return !unicode.IsLetter(before) && !unicode.IsLetter(after)
}

// describe returns the place of a value with the text around it.
func describe(number int, text string, at int, found spelling) string {
	line := 1 + strings.Count(text[:at], "\n")
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	end := at + len(found.text)
	if next := strings.IndexByte(text[end:], '\n'); next >= 0 {
		text = text[:end+next]
	}
	const around = 40
	before, after := text[max(begin, at-around):at], text[end:min(len(text), end+around)]
	how := ""
	if found.encoded != "" {
		how = ", " + found.encoded + ","
	}
	return fmt.Sprintf("%s%s in text %d, line %d: %q", found.What, how, number, line, before+"█"+after)
}
