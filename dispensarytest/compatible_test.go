package dispensarytest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/jsonrewrite"
)

// known removes the additions, which clients did not know before.
func known(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if strings.HasPrefix(key, "added_") {
				delete(value, key)
				continue
			}
			value[key] = known(item)
		}
	case []any:
		for i := range value {
			value[i] = known(value[i])
		}
	}
	return value
}

// What is left of the changed answers when the new keys are taken away says what
// the platform's own records say.
func TestCompatibleChanges(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()), WithCompatibleChanges(7))
	jane := b.fake.Patients.All()[0]
	assert.Greater(t, len(jane.ID), 36, "ids are longer")
	path := "/clinic/patients/" + jane.ID
	a := b.get(path)
	a.ok(200)
	assert.Contains(t, a.text, "added_")
	assert.Equal(t, a.text, b.get(path).text, "the same answer is changed in the same way")
	patient := known(a.body).(map[string]any)["patient"].(map[string]any)
	assert.ElementsMatch(t, patientKeys, keysOf(patient))
	assert.Equal(t, jane.ID, patient["id"])
	list := known(b.get("/clinic/patients").body).(map[string]any)
	assert.ElementsMatch(t, []string{"patients", "meta"}, keysOf(list))
	assert.Len(t, list["patients"], 5)
	assert.Contains(t, b.get("/clinic/patients/x").text, `"Not Found"`)

	plain, other := start(t, WithInMemory()), start(t, WithInMemory(), WithCompatibleChanges(8))
	assert.NotEqual(t, a.text, other.get(path).text)
	assert.NotContains(t, plain.get("/clinic").text, "added_")
	_, err := Start(WithCompatibleChanges(0))
	require.Error(t, err)
}

func TestCompatibleWebhooks(t *testing.T) {
	t.Parallel()
	b, hook := hooked(t, nil, WithCompatibleChanges(7))
	_, e := b.place()
	require.NoError(t, b.wait(e))
	var sent any
	require.NoError(t, json.Unmarshal([]byte(hook.all()[0].body), &sent))
	event := known(sent).(map[string]any)["event"].(map[string]any)
	assert.Equal(t, e.ID, event["id"])
	_, genuine := b.verified(hook.all()[0])
	assert.True(t, genuine, "what is signed is what is sent")
	fork := b.fake.Fork(t)
	assert.Equal(t, b.fake.ClinicKeys(), fork.ClinicKeys())
}

func TestTreesAreWrittenAsTheyWereRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"b":1.50,"a":{"c":[1,"x<y",null,true,{}]},"":[]}`, `"x"`, `12345678901234567890`, `null`, `[[],{"é":"\u0000"}]`} {
		tree, err := jsonrewrite.Parse([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, text, string(tree.Encode(nil)))
	}
	for _, text := range []string{``, `{`, `{"a"`, `{"a":`, `[1`} {
		_, err := jsonrewrite.Parse([]byte(text))
		assert.Error(t, err, text)
	}
}
