package dispensarytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// busy returns a platform with data of every kind.
func busy(t *testing.T, opts ...Option) (b *browser, refresh string) {
	b = start(t, append([]Option{WithInMemory(), WithClock(frozen()), WithBehavior(behavior.DefaultPageSize2)}, opts...)...)
	activate(b.t, b.fake)
	require.NoError(t, b.fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
	b.oneOfEach()
	b.fake.Clock.Advance(time.Minute)
	b.code(model.User{})
	b.send("POST", "/clinic/treatment_plans/"+b.fake.Plans.All()[0].ID+"/in_office_checkout", nil).ok(201)
	pair := b.fake.Tokens.Issue(model.User{})
	b.token = pair.AccessToken
	return b, pair.RefreshToken
}

// saved returns the snapshot of a platform.
func saved(t testing.TB, fake *Server) string {
	t.Helper()
	file, err := fake.Snapshot()
	require.NoError(t, err)
	return string(file)
}

// restarted starts another platform from a snapshot.
func restarted(t testing.TB, fake *Server, opts ...Option) *Server {
	t.Helper()
	return New(t, append([]Option{WithInMemory(), WithSnapshot([]byte(saved(t, fake)))}, opts...)...)
}

// restore resets a platform to a state of its own.
func (s *Server) restore(from *state) {
	defer s.clock.Pause()()
	s.clock.Drop(s.sender)
	s.store.Lock()
	defer s.store.Unlock()
	s.store.World = from.World.Clone()
	s.tokens.Restore(from.Tokens)
	s.sender.Restore(from.Webhooks)
}

// everything reads all data that an integrator can see.
func (b *browser) everything() (responses []string) {
	for _, path := range []string{
		"/clinic", "/clinic/patients", "/clinic/orders?page[size]=100", "/catalog/products", "/events/orders", "/webhooks/deliveries",
		"/clinic/metadata?id=ehr-1001", "/clinic/patients/" + b.fake.Patients.All()[0].ID + "/treatment_plans",
	} {
		responses = append(responses, b.get(path).text)
	}
	return responses
}

func TestSnapshotRestoresPlatform(t *testing.T) {
	t.Parallel()
	b, refresh := busy(t)
	again := &browser{t: t, fake: restarted(t, b.fake), token: b.token}
	assert.Equal(t, b.everything(), again.everything())
	assert.Equal(t, b.fake.Clock.Now(), again.fake.Clock.Now())
	assert.Equal(t, b.fake.Application(), again.fake.Application())
	assert.Equal(t, b.fake.ClinicKeys(), again.fake.ClinicKeys())
	assert.Equal(t, b.fake.Users(), again.fake.Users())
	assert.Equal(t, b.fake.Behaviors(), again.fake.Behaviors())
	assert.Equal(t, notSent(b.fake), notSent(again.fake))
	again.renew(refresh).ok(200)
	next, known := again.fake.Clock.Next()
	require.True(t, known, "retries are due")
	was, _ := b.fake.Clock.Next()
	assert.Equal(t, was, next)
	again.fake.Clock.Advance(time.Hour)
	last := len(b.fake.Webhooks.Deliveries()) - 1
	assert.Greater(t, len(again.fake.Webhooks.Deliveries()[last].Attempts), len(b.fake.Webhooks.Deliveries()[last].Attempts))
	jane := b.fake.Patients.All()[0]
	assert.Equal(t, b.fake.Patients.Cart(jane.ID), again.fake.Patients.Cart(jane.ID))
}

func TestSnapshotPlatformsAreIsolated(t *testing.T) {
	t.Parallel()
	b, _ := busy(t)
	before, snap := b.everything(), WithSnapshot([]byte(saved(t, b.fake)))
	one := &browser{t: t, fake: New(t, WithInMemory(), snap), token: b.token}
	other := &browser{t: t, fake: New(t, WithInMemory(), snap), token: b.token}
	one.oneOfEachButKeys()
	assert.Equal(t, before, b.everything())
	assert.Equal(t, before, other.everything())
	changed := one.everything()
	b.oneOfEachButKeys()
	assert.Equal(t, changed, b.everything(), "the same ids")
	other.fake = New(t, WithInMemory(), snap, WithBehavior(behavior.DefaultPageSize20))
	assert.Len(t, other.get("/clinic/patients").column("patients", "id"), len(other.fake.Patients.All()))
}

// swapAddresses gives a person an address that another person has released.
func (b *browser) swapAddresses() {
	one, other := b.fake.Patients.All()[1], b.fake.Patients.All()[2]
	_, _, err := b.fake.Patients.Update(one.ID, model.PatientUpdate{Email: new("elsewhere@example.org")})
	require.NoError(b.t, err)
	_, _, err = b.fake.Patients.Update(other.ID, model.PatientUpdate{Email: &one.Email})
	require.NoError(b.t, err)
}

// A restored platform has the same snapshot, and only a change makes another one.
func TestSnapshotBytesFollowChanges(t *testing.T) {
	t.Parallel()
	b, refresh := busy(t)
	first := b.fake.state()
	last := saved(t, b.fake)
	for _, step := range []struct {
		name   string
		happen func()
	}{
		{"people", b.oneOfEachButKeys},
		{"time", func() { b.fake.Clock.Advance(time.Hour) }},
		{"a call", func() { b.send("POST", "/clinic/patients", someone()).ok(201) }},
		{"a cart", func() {
			b.send("POST", "/clinic/treatment_plans/"+b.fake.Plans.All()[1].ID+"/in_office_checkout", nil).ok(201)
		}},
		{"an address", b.swapAddresses},
		{"a refresh", func() { b.renew(refresh).ok(200) }},
		{"a code", func() { b.code(model.User{}) }},
		{"an endpoint", func() { require.NoError(t, b.fake.Webhooks.Register("http://127.0.0.1:1/")) }},
		{"a reading", func() { require.NoError(t, b.fake.SetBehavior(behavior.ProbeBeforeEach)) }},
		{"a revocation", func() {
			b.fake.tokens.RevokeToken(b.token, &rules.Set{Chosen: map[string]behavior.Variant{"revocation-reach": behavior.RevocationReachPair}})
		}},
		{"a reset", b.fake.Reset},
		{"the start", func() { b.fake.restore(first) }},
		{"thirty days", func() { b.fake.Clock.Advance(store.Retention); b.oneOfEachButKeys() }},
		{"a key", func() { _, err := b.fake.Clinics.RevokeKey(b.fake.ClinicKey()); require.NoError(t, err) }},
		{"an expiry", func() { require.NoError(t, b.fake.Tokens.Expire(b.token)) }},
		{"the end of all tokens", b.fake.Tokens.InvalidateAll},
	} {
		step.happen()
		b.fake.Clock.Advance(0) // pending deliveries arrive
		b.get("/clinic")        // the first use of a token is a change
		now := saved(t, b.fake)
		assert.False(t, last == now, step.name)
		b.get("/clinic")
		assert.True(t, now == saved(t, b.fake), step.name)
		assert.True(t, now == saved(t, restarted(t, b.fake)), step.name)
		last = now
	}
}

// oneOfEachButKeys changes data of every kind except keys.
func (b *browser) oneOfEachButKeys() {
	_, _, err := b.fake.Patients.Create(model.PatientCreate{})
	require.NoError(b.t, err)
	_, _, err = b.fake.Orders.Place(b.fake.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(b.t, err)
	_, _, err = b.fake.Patients.Update(b.fake.Patients.All()[0].ID, model.PatientUpdate{Gender: new(store.GenderMale)})
	require.NoError(b.t, err)
	b.fake.Clock.Advance(0) // pending deliveries arrive
}

func TestSnapshotKeepsLiveClockOffset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Clock.Advance(time.Hour)
		file, again := saved(t, b.fake), restarted(t, b.fake)
		assert.Equal(t, b.fake.Clock.Now(), again.Clock.Now())
		time.Sleep(time.Minute)
		assert.Equal(t, b.fake.Clock.Now(), again.Clock.Now())
		assert.Equal(t, file, saved(t, b.fake), "time alone changes nothing")
	})
}

func TestInvalidSnapshotsAreRejected(t *testing.T) {
	t.Parallel()
	whole := saved(t, start(t, WithInMemory()).fake)
	for file, want := range map[string]struct {
		kind error
		says string
	}{
		"":                   {errNoSnapshot, "it is empty"},
		" \n":                {errNoSnapshot, "it is empty"},
		`{"name":"mine"}`:    {errNoSnapshot, "not a snapshot"},
		"# a shell script":   {errNoSnapshot, "not a snapshot"},
		whole[:len(whole)/2]: {errSnapshotDamaged, "unexpected end"},
		whole + "{":          {errSnapshotDamaged, "invalid character"},
		headOf(1):            {errSnapshotVersion, "version 1, this program reads version 2"},
		headOf(2):            {errSnapshotDamaged, "it has no world"},
		strings.Replace(whole, `"Numbers":`, `"Last":`, 1):                                    {errSnapshotDamaged, "it has no world"},
		strings.Replace(whole, `"Environment":"us/sandbox"`, `"Environment":"fr/sandbox"`, 1): {errSnapshotDamaged, "unknown sandbox"},
		strings.Replace(whole, `"Grant":0`, `"Grant":1`, 1):                                   {errSnapshotDamaged, "an access token without consent"},
		strings.Replace(whole, `"Refresh":{"`, `"Refresh":{"x":9,"`, 1):                       {errSnapshotDamaged, "a refresh token without consent"},
		strings.Replace(whole, `"Allergens":{"Rows":[`, `"Allergens":{"Rows":[null,`, 1):      {errSnapshotDamaged, "a row is missing"},
		strings.Replace(whole, `"Allergens":{"Rows":[`, `"Allergens":{"Rows":[{},{},`, 1):     {errSnapshotDamaged, "a row occurs twice"},
		strings.Replace(whole, `"Deliveries":{"Rows":null`, `"Deliveries":{"Rows":[null]`, 1): {errSnapshotDamaged, "a row is missing"},
		strings.Replace(whole, `"Behaviors":[`, `"Behaviors":["no-such=x",`, 1):               {errSnapshotDamaged, "there is no behavior"},
	} {
		_, err := Start(WithSnapshot([]byte(file)))
		require.ErrorIs(t, err, api.ErrArgument, want.says)
		require.ErrorIs(t, err, want.kind, want.says)
		require.ErrorContains(t, err, want.says)
	}
	_, err := Start(WithSnapshot(nil))
	require.Error(t, err)
}

func headOf(version int) string {
	return fmt.Sprintf(`{"Format":%q,"Version":%d}`, snapshotFormat, version)
}

func TestResetRestoresInitialState(t *testing.T) {
	t.Parallel()
	received := make(chan string, 10)
	receiver := listen(t, func(_ int, w http.ResponseWriter, challenge string) {
		received <- challenge
		w.WriteHeader(http.StatusInternalServerError)
	})
	b := start(t, WithClock(frozen()), WithWebhook(receiver.URL, model.EventOrderPlaced), WithScopes("patients:order_history"))
	require.NoError(t, b.fake.Tokens.ExtendScopes("clinic:read"))
	assert.Contains(t, b.fake.Application().Scopes, "clinic:read")
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	keys, patients := b.fake.ClinicKeys(), b.fake.Patients.All()
	activate(b.t, b.fake)
	require.NoError(t, b.fake.Webhooks.Register(receiver.URL))
	_, _, err := b.fake.Orders.Place(patients[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	b.fake.Clock.Advance(0)
	<-received
	_, _, err = b.fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)

	at := b.fake.Clock.Now()
	b.fake.Reset()
	assert.Equal(t, patients, b.fake.Patients.All())
	assert.Equal(t, keys, b.fake.ClinicKeys())
	assert.Empty(t, b.fake.Webhooks.Deliveries())
	assert.Empty(t, notSent(b.fake))
	assert.Empty(t, b.fake.Tokens.Credentials())
	assert.Empty(t, b.fake.Journal.Requests())
	assert.Equal(t, []string{"catalog:read", "patients:order_history"}, b.fake.Application().Scopes)
	endpoint, _ := b.fake.Webhooks.Endpoint()
	assert.Equal(t, model.Endpoint{URL: receiver.URL, Types: []string{model.EventOrderPlaced}}, endpoint)
	assert.Equal(t, at, b.fake.Clock.Now())
	_, waiting := b.fake.Clock.Next()
	assert.False(t, waiting, "no earlier delivery is due")
	b.get("/clinic").rejected(401, "The access token is invalid")
}

func TestResetRemovesEndpoint(t *testing.T) {
	t.Parallel()
	b := start(t)
	activate(b.t, b.fake)
	require.NoError(t, b.fake.Webhooks.Register("http://127.0.0.1:1/"))
	b.fake.Reset()
	_, registered := b.fake.Webhooks.Endpoint()
	assert.False(t, registered)
}

func TestCredentialsListsEveryToken(t *testing.T) {
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
		got = append(got, k.Kind+" "+k.TokenID+" "+k.User.Email+" "+k.Rejection)
	}
	first := b.fake.Users()[0].Email
	assert.Equal(t, []string{
		"access_token token-1 " + first + " expired", "access_token token-2 " + user.Email + " revoked",
		"refresh_token  " + first + " ", "refresh_token  " + user.Email + " revoked",
		"code  " + user.Email + " ",
	}, got)
	last := b.fake.Tokens.Credentials()[4]
	assert.Equal(t, back.Query().Get("code"), last.Value)
	assert.Equal(t, b.fake.Clock.Now().Add(tokens.CodeLifetime), last.ExpiresAt)
	b.fake.Tokens.InvalidateAll()
	assert.Equal(t, "invalidated", b.fake.Tokens.Credentials()[0].Rejection)
}

// A platform that started from a snapshot resets to the snapshot.
func TestResetRestoresSnapshot(t *testing.T) {
	t.Parallel()
	b, _ := busy(t)
	second := start(t, WithInMemory(), WithSnapshot([]byte(saved(t, b.fake))))
	second.token = b.token
	before, waiting := second.everything(), len(second.fake.Webhooks.Deliveries())
	due, _ := second.fake.Clock.Next()
	for range 2 {
		second.oneOfEachButKeys()
		second.fake.Tokens.InvalidateAll()
		second.fake.Reset()
		assert.Equal(t, before, second.everything())
		assert.Len(t, second.fake.Webhooks.Deliveries(), waiting)
		next, _ := second.fake.Clock.Next()
		assert.Equal(t, due, next, "the due delivery is still due")
	}
	again := start(t, WithSnapshot([]byte(saved(t, b.fake))), WithWebhook("http://127.0.0.1:1/", model.EventOrderPlaced))
	again.fake.Reset()
	endpoint, _ := again.fake.Webhooks.Endpoint()
	assert.Equal(t, "http://127.0.0.1:1/", endpoint.URL, "options override the snapshot")
}
