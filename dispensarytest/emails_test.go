package dispensarytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The Kelvin sign becomes k in strings.ToLower and equals it in strings.EqualFold. The
// two are different addresses all the same, on the platform as for the client.
func TestKelvinSignIsAnotherAddress(t *testing.T) {
	t.Parallel()
	const kim, kelvin = "Kim@example.org", "\u212aim@example.org"
	b := start(t, WithInMemory())
	client := b.fake.Client(model.User{})
	create := func(email string) *clinic.Patient {
		p, err := client.Clinic.Patients.Create(t.Context(), clinic.NewPatient{FirstName: "Kim", LastName: "Doe", Email: email})
		require.NoError(t, err)
		return p
	}
	first, second := create(kim), create(kelvin)
	assert.NotEqual(t, first.ID, second.ID)
	taken := someone()
	taken["email"] = "kiM@example.org"
	b.send("POST", "/clinic/patients", taken).refused(422, "already been taken")
	taken["email"] = "\u212aIM@example.org"
	b.send("POST", "/clinic/patients", taken).refused(422, "already been taken")
}

func TestSignInFoldsASCIIAlone(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	page := b.open(b.authorizeURL(nil))
	users := b.fake.Users()
	at := slices.IndexFunc(users, func(u model.User) bool { return strings.Contains(u.Email, "s") })
	require.NotEqual(t, -1, at)
	user := users[at]
	long := strings.Replace(user.Email, "s", "\u017f", 1) // ſ equals s in strings.EqualFold
	assert.Contains(t, b.signIn(page, long, user.Password).text, "is wrong")
	assert.NotContains(t, b.signIn(page, strings.ToUpper(user.Email), user.Password).text, "is wrong")
}
