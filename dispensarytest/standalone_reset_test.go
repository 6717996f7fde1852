package dispensarytest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestResetStartsOver(t *testing.T) {
	t.Parallel()
	received := make(chan string, 10)
	receiver := listen(t, func(_ int, w http.ResponseWriter, challenge string) {
		received <- challenge
		w.WriteHeader(http.StatusInternalServerError)
	})
	b := start(t, WithClock(frozen()), WithWebhook(receiver.URL, model.OrderPlaced), WithScopes("patients:order_history"))
	require.NoError(t, b.fake.Tokens.ExtendScopes("clinic:read"))
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	keys, patients := b.fake.ClinicKeys(), b.fake.Patients.All()
	require.NoError(t, b.fake.Webhooks.Register(receiver.URL))
	_, _, err := b.fake.Orders.Place(patients[0].ID, model.NewOrder{})
	require.NoError(t, err)
	b.fake.Clock().Advance(0)
	<-received
	_, _, err = b.fake.Patients.Register(model.NewPatient{})
	require.NoError(t, err)

	at := b.fake.Clock().Now()
	b.fake.Reset()
	assert.Equal(t, patients, b.fake.Patients.All())
	assert.Equal(t, keys, b.fake.ClinicKeys())
	assert.Empty(t, b.fake.Webhooks.Deliveries())
	assert.Empty(t, b.fake.Webhooks.Skipped())
	assert.Empty(t, b.fake.Tokens.Credentials())
	assert.Zero(t, b.fake.Journal().Len())
	assert.Equal(t, []string{"catalog:read", "patients:order_history"}, b.fake.Application().Scopes)
	endpoint, _ := b.fake.Webhooks.Endpoint()
	assert.Equal(t, model.Endpoint{URL: receiver.URL, Types: []string{model.OrderPlaced}}, endpoint)
	assert.Equal(t, at, b.fake.Clock().Now())
	_, waiting := b.fake.Clock().Next()
	assert.False(t, waiting, "no delivery of before is due any more")
	b.get("/clinic").refused(401, "The access token is invalid")
}

func TestResetForgetsTheEndpoint(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NoError(t, b.fake.Webhooks.Register("http://127.0.0.1:1/"))
	b.fake.Reset()
	_, registered := b.fake.Webhooks.Endpoint()
	assert.False(t, registered)
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	user := b.fake.Users()[1]
	second := b.fake.Tokens.Issue(user, "clinic:read")
	require.NoError(t, b.fake.Tokens.Expire(b.token))
	back, err := b.fake.Approve(b.authorizeURL(nil), user)
	require.NoError(t, err)
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": second.RefreshToken, "redirect_uri": nil})).ok(200)
	var got []string
	for _, k := range b.fake.Tokens.Credentials() {
		got = append(got, k.Kind+" "+k.TokenID+" "+k.User.Email+" "+k.Refusal)
	}
	first := b.fake.Users()[0].Email
	assert.Equal(t, []string{
		"access_token token-1 " + first + " expired", "access_token token-2 " + user.Email + " revoked",
		"refresh_token  " + first + " ", "refresh_token  " + user.Email + " revoked",
		"code  " + user.Email + " ",
	}, got)
	last := b.fake.Tokens.Credentials()[4]
	assert.Equal(t, back.Query().Get("code"), last.Value)
	assert.Equal(t, b.fake.Clock().Now().Add(tokens.CodeLifetime), last.ExpiresAt)
	b.fake.Tokens.InvalidateAll()
	assert.Equal(t, "invalidated", b.fake.Tokens.Credentials()[0].Refusal)
}

// A platform that began with a snapshot goes back to the snapshot.
func TestResetReturnsToTheSnapshot(t *testing.T) {
	t.Parallel()
	b, _ := busy(t)
	second := start(t, WithInMemory(), WithSnapshot(b.fake.Snapshot()))
	second.token = b.token
	before, waiting := second.everything(), len(second.fake.Webhooks.Deliveries())
	due, _ := second.fake.Clock().Next()
	for range 2 {
		second.oneOfEachButKeys()
		second.fake.Tokens.InvalidateAll()
		second.fake.Reset()
		assert.Equal(t, before, second.everything())
		assert.Len(t, second.fake.Webhooks.Deliveries(), waiting)
		next, _ := second.fake.Clock().Next()
		assert.Equal(t, due, next, "what was due still is")
	}
	again := start(t, WithSnapshot(b.fake.Snapshot()), WithWebhook("http://127.0.0.1:1/", model.OrderPlaced))
	again.fake.Reset()
	endpoint, _ := again.fake.Webhooks.Endpoint()
	assert.Equal(t, "http://127.0.0.1:1/", endpoint.URL, "options have the last word")
}
