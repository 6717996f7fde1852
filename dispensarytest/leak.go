package dispensarytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// CheckNoLeak fails the test if a text, such as a log or the dump of a span, contains one of
// the platform's secrets. It finds values of patients (names, e-mail address, date of birth,
// phone number, street, metadata id), tokens, codes, clinic keys, passwords of users, and the
// application's secrets. It finds them as plain text and URL-, base64- or hex-encoded. Ids are
// not secret. Names match only as whole words, and only names of three letters or more.
//
// The failure shows the owner and the place of each value, and the line without the value.
func (s *Server) CheckNoLeak(t testing.TB, texts ...string) {
	t.Helper()
	search := leak.New(s.secrets())
	var findings []string
	for i, text := range texts {
		findings = append(findings, search.Find(i+1, text)...)
	}
	const shown = 20
	if n := len(findings); n > shown {
		findings = append(findings[:shown], fmt.Sprintf("and %d more", n-shown))
	}
	if len(findings) > 0 {
		t.Errorf("dispensarytest: expected no patient value, token or secret of the platform; found\n  %s", strings.Join(findings, "\n  "))
	}
}

// secrets returns all values that must not leak.
func (s *Server) secrets() []leak.Secret {
	app := s.Application()
	all := []leak.Secret{
		{What: "the client secret", Value: app.ClientSecret}, {What: "the webhook secret", Value: app.WebhookSecret}, {What: "the challenge token", Value: app.ChallengeToken},
	}
	s.tokens.Values(func(what, value string) { all = append(all, leak.Secret{What: what, Value: value}) })
	held := s.store
	held.RLock()
	defer held.RUnlock()
	for i := range table.All(held.World.Integrations) {
		all = append(all, leak.Secret{What: "a clinic key", Value: i.Key})
	}
	for u := range table.All(held.World.Users) {
		all = append(all, leak.Secret{What: "the password of user " + u.ID, Value: u.Password})
	}
	for p := range table.All(held.World.Patients) {
		all = append(all, patientSecrets(p)...)
	}
	for a := range table.All(held.World.Addresses) {
		all = append(all, leak.Secret{What: "the street of patient " + a.PatientID, Value: a.Address1})
	}
	return all
}

func patientSecrets(p *model.Patient) (all []leak.Secret) {
	for _, field := range []leak.Secret{
		{What: "first name", Value: p.FirstName}, {What: "last name", Value: p.LastName}, {What: "e-mail address", Value: p.Email},
		{What: "date of birth", Value: p.DateOfBirth}, {What: "mobile number", Value: p.MobileNumber}, {What: "metadata id", Value: p.MetadataID},
	} {
		all = append(all, leak.Secret{What: "the " + field.What + " of patient " + p.ID, Value: field.Value})
	}
	return all
}
