package webhook_test

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

func TestKeyTravelsAsText(t *testing.T) {
	t.Parallel()
	seen := map[string]webhook.Key{}
	for _, environment := range api.Environments() {
		for _, event := range []string{"evt_1", "evt_1/in_1", "a b", "%2F", "%", "\x00", "é", "e\u0301", "\xff", ".", ".."} {
			for _, integration := range []string{"", "in_1", "/", "evt_1"} {
				key := webhook.Key{Environment: environment, EventID: event, IntegrationID: integration}
				text, err := key.MarshalText()
				require.NoError(t, err)
				assert.Equal(t, string(text), key.String())
				assert.NotContains(t, seen, string(text), "%q has the text of %q", key, seen[string(text)])
				seen[string(text)] = key
				var again webhook.Key
				require.NoError(t, again.UnmarshalText(text))
				assert.Equal(t, key, again)
			}
		}
	}
	encoded, err := json.Marshal(orderKey)
	require.NoError(t, err)
	assert.Equal(t, `"us/sandbox/evt_1/in_1"`, string(encoded))
	var shown strings.Builder
	page := template.Must(template.New("").Parse("{{.Key}}"))
	odd := webhook.Key{Environment: sandbox, EventID: "a b/ü%"}
	require.NoError(t, page.Execute(&shown, engine.Event{Delivery: webhook.Delivery{Key: odd}}))
	assert.Equal(t, odd.String(), shown.String(), "what a page shows can be read back")
	assert.Equal(t, "order.placed us/sandbox/evt_1/in_1", fmt.Sprint(webhook.Delivery{Key: orderKey, Type: "order.placed"}))
}

func TestKeyRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "us/sandbox", "us/sandbox/evt_1", "us/sandbox//in_1", "us/moon/evt_1/", "//evt_1/", "us/sandbox/evt_1/in_1/x", "us/sandbox/%zz/in_1"} {
		key := orderKey
		require.Error(t, key.UnmarshalText([]byte(text)), text)
		assert.Equal(t, orderKey, key, "nothing is changed")
	}
}

func FuzzKey(f *testing.F) {
	f.Add("us/sandbox/evt_1/in_1")
	f.Add("ca/production/a%2Fb/")
	f.Fuzz(func(t *testing.T, text string) {
		var key, again webhook.Key
		if key.UnmarshalText([]byte(text)) != nil {
			return
		}
		canonical, err := key.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(canonical))
		require.Equal(t, key, again)
	})
}
