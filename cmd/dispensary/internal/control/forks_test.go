package control

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

func TestForks(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	assert.Empty(t, r.ok("GET", "/forks", "", "forks"))
	before := len(r.fake.Platform().Patients())
	started := r.ok("POST", "/forks", "").(map[string]any)
	assert.Equal(t, started, r.ok("GET", "/forks", "", "forks").([]any)[0])
	settings := started["settings"].(map[string]any)
	assert.Equal(t, r.url+"/forks/fork-1/control", settings["control_url"])
	assert.NotEqual(t, r.fake.BaseURL(), settings["base_url"])
	assert.Equal(t, r.fake.Application().ClientSecret, settings["client_secret"])

	fork := &room{t: t, url: settings["control_url"].(string)}
	fork.ok("POST", "/patients", "")
	assert.Len(t, fork.ok("GET", "/patients", "", "patients"), before+1)
	assert.Len(t, r.fake.Platform().Patients(), before, "the two go their own ways")
	second := fork.ok("POST", "/forks", "", "settings", "control_url").(string)
	assert.Len(t, (&room{t: t, url: second}).ok("GET", "/patients", "", "patients"), before+1, "a fork of a fork")
	token := fork.ok("POST", "/tokens", "", "access_token").(string)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, settings["base_url"].(string)+"/clinic", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	status, _ := r.send(request)
	assert.Equal(t, http.StatusOK, status)

	r.ok("DELETE", "/forks/fork-1", "")
	r.refused("DELETE", "/forks/fork-1", "", 404, "no fork has the id fork-1")
	fork.refused("GET", "/patients", "", 404, "no fork")
	_, err = http.Get(settings["base_url"].(string) + "/clinic")
	require.Error(t, err, "nobody answers any more")
}

func TestForksEndWithTheHandler(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t)
	api := New(fake, Options{})
	_, answer := api.Call(t.Context(), "POST", "/forks", nil)
	var started struct{ Settings Settings }
	require.NoError(t, json.Unmarshal(answer, &started))
	require.NoError(t, api.Close())
	_, err := http.Get(started.Settings.BaseURL + "/clinic")
	require.Error(t, err)
	status, answer := api.Call(t.Context(), "POST", "/forks", nil)
	assert.Equal(t, http.StatusConflict, status, "%s", answer)
}
