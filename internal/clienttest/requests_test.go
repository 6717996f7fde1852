package clienttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// testdata/requests contains the body of each operation that sends one. Tokens are left out:
// they are secrets.
func TestRequestBodies(t *testing.T) {
	t.Parallel()
	for _, op := range operation.All() {
		if op.Read() || strings.HasPrefix(op.Name, "oauth.") {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			var last *resourcetest.LastBody
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				last = &resourcetest.LastBody{Base: base}
				return last
			})
			_, err := calltest.All(t)[op.Name](t.Context(), s)
			require.NoError(t, err)
			if last.String() == "" {
				assert.NoFileExists(t, "../../testdata/requests/"+op.Name+".json")
				return
			}
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, []byte(last.String()), "", "  "))
			compareGolden(t, "../../testdata/requests/"+op.Name+".json", append(indented.Bytes(), '\n'))
		})
	}
}

// What the client asks for in queries, with everything set that narrows or sorts a read,
// stands in testdata/queries.txt, one line for each operation that has such. That the
// platform knows these names, package contract holds; what they do, the fake's tests.
func TestRequestQueries(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for _, op := range operation.All() {
		if !op.Read() || strings.HasPrefix(op.Name, "oauth.") {
			continue
		}
		f := calltest.NewFixture(t)
		_, err := calltest.All(t)[op.Name](t.Context(), f)
		require.NoError(t, err)
		last, _ := f.Platform.Journal().Last()
		if last.Query != "" {
			fmt.Fprintln(&lines, op.Name, last.Query)
		}
	}
	compareGolden(t, "../../testdata/queries.txt", []byte(lines.String()))
}

func TestNilRequestOptionChangesNothing(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t, dispensarytest.WithInMemory())
	client := platform.Client(model.User{})
	_, err := client.Clinic.Get(t.Context(), nil)
	require.NoError(t, err)
	_, _, err = client.Clinic.Patients.Ensure(t.Context(), clinic.NewPatient{
		FirstName: "Kim", LastName: "Doe", Email: "kim@example.org", Metadata: clinic.Metadata{ID: "ehr-1"},
	}, nil)
	require.NoError(t, err)
	for _, err := range client.Clinic.Patients.All(t.Context(), clinic.PatientListOptions{}, nil) {
		require.NoError(t, err)
	}
}
