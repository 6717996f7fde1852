package api_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

type exported struct {
	Value    api.Secret
	Pointer  *api.Secret
	Map      map[string]api.Secret `xml:"-"`
	Keys     map[api.Secret]string `xml:"-"`
	Slice    []api.Secret
	Array    [1]api.Secret
	Any      any
	Optional api.Optional[api.Secret]
	Token    api.AccessToken
}

type unexported struct {
	value    api.Secret
	pointer  *api.Secret
	texts    map[string]api.Secret
	keys     map[api.Secret]string
	slice    []api.Secret
	array    [1]api.Secret
	any      any
	optional api.Optional[api.Secret]
	token    api.AccessToken
	nested   *exported
}

// secretPlaces returns values that contain text as a secret.
func secretPlaces(text string) map[string]any {
	secret := api.NewSecret(text)
	open := exported{
		secret, &secret, map[string]api.Secret{"k": secret}, map[api.Secret]string{secret: "v"}, []api.Secret{secret},
		[1]api.Secret{secret}, &secret, api.Value(secret), api.AccessToken{Secret: secret, Scope: "catalog:read"},
	}
	closed := unexported{
		open.Value, open.Pointer, open.Map, open.Keys, open.Slice, open.Array, open.Any, open.Optional, open.Token, &open,
	}
	return map[string]any{
		"value": secret, "pointer": &secret, "map value": open.Map, "map key": open.Keys, "slice": open.Slice,
		"array": open.Array, "interface": []any{secret, &secret}, "optional": open.Optional, "token": open.Token,
		"exported fields": open, "pointer to exported fields": &open,
		"unexported fields": closed, "pointer to unexported fields": &closed,
	}
}

// printers return functions that write value, or its difference from other, as text.
var printers = map[string]func(t *testing.T, value, other any) string{
	"fmt": func(_ *testing.T, value, _ any) string {
		var out strings.Builder
		for verb := range strings.FieldsSeq("%v %+v %#v %T %s %q %+q %#q %x %X %#x %d %t %p %b %o %O %c %U %e %g") {
			fmt.Fprintf(&out, verb, value)
		}
		return out.String()
	},
	"JSON": func(_ *testing.T, value, _ any) string {
		text, err := json.Marshal(value)
		return fmt.Sprint(string(text), err)
	},
	"XML": func(_ *testing.T, value, _ any) string {
		text, err := xml.Marshal(value)
		return fmt.Sprint(string(text), err)
	},
	"gob": func(_ *testing.T, value, _ any) string {
		var out bytes.Buffer
		err := gob.NewEncoder(&out).Encode(value)
		return fmt.Sprint(out.String(), err)
	},
	"slog": func(_ *testing.T, value, _ any) string {
		var out bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).WithGroup("group").Info("event", "value", value)
		}
		return out.String()
	},
	"testify": func(t *testing.T, value, other any) string {
		var failures failureTexts
		require.False(t, assert.Equal(&failures, value, other))
		require.False(t, assert.EqualExportedValues(&failures, value, 1))
		require.False(t, assert.ElementsMatch(&failures, []any{value}, []any{other})) // spew without methods
		require.False(t, assert.Contains(&failures, []any{value}, other))
		require.False(t, assert.Nil(&failures, value))
		return failures.String()
	},
}

// failureTexts collects the texts of failed assertions.
type failureTexts struct{ strings.Builder }

func (f *failureTexts) Errorf(format string, args ...any) { fmt.Fprintf(f, format, args...) }

func TestPrintersHideSecrets(t *testing.T) {
	t.Parallel()
	others := secretPlaces("sparrow")
	for place, value := range secretPlaces("canary") {
		for name, printed := range printers {
			t.Run(name+" of "+place, func(t *testing.T) {
				t.Parallel()
				text := printed(t, value, others[place])
				for _, form := range []string{"canary", "sparrow", "63616e617279", "63616E617279", "[99 97 110 97 114 121]", "Y2FuYXJ5"} {
					assert.NotContains(t, text, form)
				}
			})
		}
	}
}

// A successful encoding would lose the secret or store a placeholder in its place.
func TestGobRejectsSecrets(t *testing.T) {
	t.Parallel()
	err := gob.NewEncoder(&bytes.Buffer{}).Encode(exported{Value: api.NewSecret("canary")})
	assert.ErrorContains(t, err, "api.Secret")
}

func TestSecretPrintsRedacted(t *testing.T) {
	t.Parallel()
	secret := api.NewSecret("canary")
	assert.Equal(t, "[redacted] [redacted] [redacted]", fmt.Sprintf("%v %s %x", secret, secret, secret))
	assert.Equal(t, `api.NewSecret("[redacted]")`, fmt.Sprintf("%#v", secret))
	text, err := json.Marshal(exported{Value: secret})
	require.NoError(t, err)
	assert.Contains(t, string(text), `"Value":"[redacted]","Pointer":null`)
	assert.Empty(t, api.Secret{}.String(), "an empty secret prints as empty")
}

func TestSecretsCompareByText(t *testing.T) {
	t.Parallel()
	parts := []string{"can", "ary"}
	secret, same, other := api.NewSecret("canary"), api.NewSecret(strings.Join(parts, "")), api.NewSecret("sparrow")
	assert.True(t, secret == same)
	assert.False(t, secret == other)
	assert.Equal(t, secretPlaces("canary")["token"], secretPlaces("canary")["token"])
	assert.NotEqual(t, secret, other)
	assert.Equal(t, 1, map[api.Secret]int{secret: 1}[same])

	assert.True(t, api.NewSecret("") == api.Secret{})
	assert.True(t, api.NewSecret("").IsZero())
	assert.False(t, secret.IsZero())
	assert.Equal(t, "canary", secret.Reveal())
	assert.Empty(t, api.Secret{}.Reveal())
}

func TestRevealAllocatesNothing(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	secret, length := api.NewSecret("canary"), 0
	assert.Zero(t, testing.AllocsPerRun(10, func() { length += len(secret.Reveal()) }))
}
