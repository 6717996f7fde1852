package dispensarytest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
)

// raw sends a body as it is.
func (b *browser) raw(path, body string) answer {
	b.t.Helper()
	req, err := http.NewRequest("POST", b.fake.BaseURL()+path, strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.token)
	resp, err := b.fake.HTTPClient().Do(req)
	require.NoError(b.t, err)
	return decoded(b.t, resp)
}

// A body whose text would be stored otherwise than it was sent is refused.
func TestBodiesAreText(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	patient := func(name string) string {
		return `{"first_name":"` + name + `","last_name":"B","email":"a@example.org"}`
	}
	for _, name := range []string{"\xff", "A\xc3", "\xed\xa0\x80"} {
		b.raw("/clinic/patients", patient(name)).refused(400, "must be UTF-8")
		b.raw("/oauth/token", `{"grant_type":"`+name+`"}`).refused(400, "must be UTF-8")
	}
	for _, name := range []string{`\ud83d`, `\ude00`, `A\uD83DB`, `\ud83d\ud83d\ude00`, `\ude00\ud83d`, `\ud83d\n`, `\ud83d\u0041`, `\\\ud83d`} {
		b.raw("/clinic/patients", patient(name)).refused(400, "surrogate pair")
	}
	b.raw("/clinic/patients", `{"\ud800":1}`).refused(400, "surrogate pair")
	b.raw("/clinic/patients", `{"first_name":"\ud8`).refused(400, "must be a JSON object")
	got := b.raw("/clinic/patients", patient(`\ud83d\ude00\u00e9\\ud83d`)).ok(201, "patient", "first_name")
	assert.Equal(t, `😀é\ud83d`, got)
}

func TestTextsHaveNoNULAndALimit(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	p := b.fake
	patient := "/clinic/patients/" + p.Patients.All()[0].ID
	most := strings.Repeat("é", httpapi.MaxText)
	for _, field := range []string{"first_name", "last_name", "email", "mobile_number", "gender", "date_of_birth"} {
		b.send("PATCH", patient, map[string]any{field: "a\x00b"}).refused(422, httpapi.Label(field)+" must not contain a NUL character")
		b.send("PATCH", patient, map[string]any{field: most + "é"}).refused(422, httpapi.Label(field)+" is too long (maximum is 255 characters)")
	}
	b.send("PATCH", patient, map[string]any{"metadata": map[string]any{"id": "\x00"}}).refused(422, "NUL")
	b.send("PATCH", patient, map[string]any{"metadata": map[string]any{"id": most + "é"}}).refused(422, "too long")
	assert.Equal(t, most, b.send("PATCH", patient, map[string]any{"first_name": most}).ok(200, "patient", "first_name"))

	plan := "/clinic/treatment_plans/" + p.Plans.All()[0].ID
	send := func(message, info, amount string) answer {
		return b.send("PATCH", plan, map[string]any{"personal_message": message, "recommendations": []any{map[string]any{
			"variant_id": p.Products.All()[0].VariantIDs[0], "units_to_purchase": 1, "dosage": map[string]any{"amount": amount, "additional_info": info},
		}}})
	}
	long := strings.Repeat("x", httpapi.MaxProse)
	send(long, long, most).ok(200)
	send(long+"x", "", "").refused(422, "Personal message is too long (maximum is 65535 characters)")
	send("\x00", "", "").refused(422, "Personal message must not contain a NUL character")
	send("", long+"x", "").refused(422, "dosage.additional info is too long")
	send("", "", most+"x").refused(422, "dosage.amount is too long")
}
