package dispensarytest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// CheckNoLeak fails the test if a text, such as a log or the dump of a span, holds
// a value of one of the platform's patients (names, e-mail address, date of birth,
// phone number, street, metadata id), a token, a code, a clinic key, or one of the
// application's secrets: as it is, or URL-, base64- or hex-encoded. Ids are no
// secret. Names count only as whole words, and only those of three letters or more.
//
// The failure says whose value it is and where, and shows the line without it.
func (s *Server) CheckNoLeak(t testing.TB, texts ...string) {
	t.Helper()
	search := newLeakSearch(s.secrets())
	var findings []string
	for i, text := range texts {
		findings = append(findings, search.find(i+1, text)...)
	}
	const shown = 20
	if n := len(findings); n > shown {
		findings = append(findings[:shown], fmt.Sprintf("and %d more", n-shown))
	}
	if len(findings) > 0 {
		t.Errorf("dispensarytest: expected no patient value, token or secret of the platform; found\n  %s", strings.Join(findings, "\n  "))
	}
}

// secret is a value that must not be seen, and what it is.
type secret struct{ what, value string }

// secrets lists every value there is to leak.
func (s *Server) secrets() []secret {
	app := s.Application()
	all := []secret{
		{"the client secret", app.ClientSecret}, {"the webhook secret", app.WebhookSecret}, {"the challenge token", app.ChallengeToken},
	}
	s.tokens.mu.RLock()
	for value, token := range s.tokens.access {
		all = append(all, secret{"the access token of " + token.id, value})
	}
	for value := range s.tokens.refresh {
		all = append(all, secret{"a refresh token", value})
	}
	for value := range s.tokens.codes {
		all = append(all, secret{"an authorization code", value})
	}
	s.tokens.mu.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range s.world.integrations.all() {
		all = append(all, secret{"a clinic key", i.key})
	}
	for u := range s.world.users.all() {
		all = append(all, secret{"the password of user " + u.ID, u.Password})
	}
	for p := range s.world.patients.all() {
		all = append(all, p.secrets()...)
	}
	for a := range s.world.addresses.all() {
		all = append(all, secret{"the street of patient " + a.PatientID, a.Address1})
	}
	return all
}

func (p *Patient) secrets() (all []secret) {
	for _, field := range []secret{
		{"first name", p.FirstName}, {"last name", p.LastName}, {"e-mail address", p.Email},
		{"date of birth", p.DateOfBirth}, {"mobile number", p.MobileNumber}, {"metadata id", p.MetadataID},
	} {
		all = append(all, secret{"the " + field.what + " of patient " + p.ID, field.value})
	}
	return all
}

// leakForm is one way in which a secret may be written.
type leakForm struct {
	*secret
	text    string
	encoded string // "", or how
	word    bool   // it counts only as a whole word
}

// leakSearch finds many values in one walk: every form is filed under its first
// three bytes.
type leakSearch map[[3]byte][]leakForm

// shortest is how long a value has to be for its encoded forms to tell anything.
const shortest = 6

func newLeakSearch(secrets []secret) leakSearch {
	search := make(leakSearch, len(secrets))
	for i := range secrets {
		for _, form := range secrets[i].forms() {
			if len(form.text) >= 3 {
				key := [3]byte([]byte(form.text[:3]))
				search[key] = append(search[key], form)
			}
		}
	}
	return search
}

// forms lists how a value may be written.
func (s *secret) forms() []leakForm {
	if s.value == "" {
		return nil
	}
	forms := []leakForm{{s, s.value, "", wordlike(s.value)}}
	for _, escaped := range []string{url.QueryEscape(s.value), url.PathEscape(s.value)} {
		if escaped != s.value {
			forms = append(forms, leakForm{s, escaped, "URL-encoded", false}, leakForm{s, lowerEscapes(escaped), "URL-encoded", false})
		}
	}
	if len(s.value) < shortest {
		return forms
	}
	digits := hex.EncodeToString([]byte(s.value))
	forms = append(forms, leakForm{s, digits, "in hexadecimal", false}, leakForm{s, strings.ToUpper(digits), "in hexadecimal", false})
	for _, text := range base64Cores(s.value) {
		forms = append(forms, leakForm{s, text, "in base64", false})
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

func (search leakSearch) find(number int, text string) (findings []string) {
	seen := make(map[string]bool)
	for at := 0; at+3 <= len(text); at++ {
		for _, form := range search[[3]byte([]byte(text[at:at+3]))] {
			if !strings.HasPrefix(text[at:], form.text) || form.word && !isWord(text, at, len(form.text)) {
				continue
			}
			if name := form.what + form.encoded; !seen[name] {
				seen[name] = true
				findings = append(findings, describeLeak(number, text, at, form))
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

// describeLeak says where a value stands, and shows what is around it.
func describeLeak(number int, text string, at int, form leakForm) string {
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
	return fmt.Sprintf("%s%s in text %d, line %d: %q", form.what, how, number, line, before+"█"+after)
}
