package dispensarytest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// busy is a platform on which something of everything has happened.
func busy(t *testing.T, opts ...Option) (b *browser, refresh string) {
	b = start(t, append([]Option{WithInMemory(), WithClock(frozen()), WithBehavior(DefaultPageSize2)}, opts...)...)
	activate(b.t, b.fake)
	require.NoError(t, b.fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
	b.oneOfEach()
	b.fake.Clock().Advance(time.Minute)
	b.code(model.User{})
	b.send("POST", "/clinic/treatment_plans/"+b.fake.Plans.All()[0].ID+"/in_office_checkout", nil).ok(201)
	pair := b.fake.Tokens.Issue(model.User{})
	b.token = pair.AccessToken
	return b, pair.RefreshToken
}

// everything reads all that an integrator can see.
func (b *browser) everything() (answers []string) {
	for _, path := range []string{
		"/clinic", "/clinic/patients", "/clinic/orders?page[size]=100", "/catalog/products", "/events/orders", "/webhooks/deliveries",
		"/clinic/metadata?id=ehr-1001", "/clinic/patients/" + b.fake.Patients.All()[0].ID + "/treatment_plans",
	} {
		answers = append(answers, b.get(path).text)
	}
	return answers
}

func TestSnapshotsAreSavedAndLoaded(t *testing.T) {
	t.Parallel()
	b, refresh := busy(t)
	var file bytes.Buffer
	require.NoError(t, b.fake.Save(&file))
	snap, err := LoadSnapshot(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	again := start(t, WithInMemory(), WithSnapshot(snap))
	again.token = b.token
	assert.Equal(t, b.everything(), again.everything())
	assert.Equal(t, b.fake.Clock().Now(), again.fake.Clock().Now())
	assert.Equal(t, b.fake.Application(), again.fake.Application())
	assert.Equal(t, b.fake.ClinicKeys(), again.fake.ClinicKeys())
	assert.Equal(t, b.fake.Users(), again.fake.Users())
	assert.Equal(t, b.fake.Behaviors(), again.fake.Behaviors())
	assert.Equal(t, b.fake.Webhooks.Skipped(), again.fake.Webhooks.Skipped())
	again.renew(refresh).ok(200)
	next, known := again.fake.Clock().Next()
	require.True(t, known, "retries are due")
	was, _ := b.fake.Clock().Next()
	assert.Equal(t, was, next)
	again.fake.Clock().Advance(time.Hour)
	last := len(b.fake.Webhooks.Deliveries()) - 1
	assert.Greater(t, len(again.fake.Webhooks.Deliveries()[last].Attempts), len(b.fake.Webhooks.Deliveries()[last].Attempts))
	jane := b.fake.Patients.All()[0]
	assert.Equal(t, b.fake.Patients.Cart(jane.ID), again.fake.Patients.Cart(jane.ID))
}

func TestForksGoTheirOwnWays(t *testing.T) {
	t.Parallel()
	b, _ := busy(t)
	before := b.everything()
	fork := *b
	fork.fake = b.fake.Fork(t)
	assert.Equal(t, before, fork.everything())
	fork.oneOfEachButKeys()
	assert.Equal(t, before, b.everything())
	changed := fork.everything()
	b.oneOfEachButKeys()
	assert.Equal(t, changed, fork.everything())
	other := *b
	other.fake = b.fake.Fork(t, WithBehavior(DefaultPageSize20))
	assert.Len(t, other.get("/clinic/patients").column("patients", "id"), len(b.fake.Patients.All()))
}

// oneOfEachButKeys changes something of everybody's.
func (b *browser) oneOfEachButKeys() {
	_, _, err := b.fake.Patients.Register(model.NewPatient{})
	require.NoError(b.t, err)
	_, _, err = b.fake.Orders.Place(b.fake.Patients.All()[0].ID, model.NewOrder{})
	require.NoError(b.t, err)
	_, _, err = b.fake.Patients.Edit(b.fake.Patients.All()[0].ID, model.PatientChange{Gender: new(model.Male)})
	require.NoError(b.t, err)
	b.fake.Clock().Advance(0) // what is on its way arrives
}

func TestForksOnSockets(t *testing.T) {
	t.Parallel()
	for _, way := range []Option{WithAddr(defaultAddr), WithTLS()} {
		b := start(t, way)
		fork := *b
		fork.fake = b.fake.Fork(t)
		assert.NotEqual(t, b.fake.BaseURL(), fork.fake.BaseURL())
		fork.get("/clinic").ok(200)
		fork.send("PATCH", "/clinic/patients/"+b.fake.Patients.All()[0].ID, map[string]any{"discount": 50}).ok(200)
		assert.Zero(t, b.fake.Patients.All()[0].Discount)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	b, _ := busy(t)
	before := b.everything()
	snap := b.fake.Snapshot()
	for range 3 {
		b.oneOfEachButKeys()
		b.fake.Restore(snap)
		after := b.everything()
		assert.Equal(t, before, after)
	}
	var file bytes.Buffer
	require.NoError(t, snap.Save(&file))
	b.oneOfEachButKeys()
	require.NoError(t, b.fake.SetBehavior(ProbeBeforeEach))
	behaviors := b.fake.Behaviors()
	require.NoError(t, b.fake.Load(&file))
	assert.Equal(t, before, b.everything())
	assert.Equal(t, behaviors, b.fake.Behaviors(), "they stay as they are")
}

func TestLiveForksInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Clock().Advance(time.Hour)
		fork := b.fake.Fork(t)
		assert.Equal(t, b.fake.Clock().Now(), fork.Clock().Now())
		time.Sleep(time.Minute)
		assert.Equal(t, b.fake.Clock().Now(), fork.Clock().Now())
	})
}

func TestWrongSnapshots(t *testing.T) {
	t.Parallel()
	whole := saved(t, New(t, WithInMemory()).Snapshot())
	for file, want := range map[string]struct {
		kind error
		says string
	}{
		"":                   {ErrNoSnapshot, "it is empty"},
		" \n":                {ErrNoSnapshot, "it is empty"},
		`{"name":"mine"}`:    {ErrNoSnapshot, "not a snapshot"},
		"# a shell script":   {ErrNoSnapshot, "not a snapshot"},
		whole[:len(whole)/2]: {ErrSnapshotDamaged, "unexpected end"},
		whole + "{":          {ErrSnapshotDamaged, "invalid character"},
		headOf(6, ""):        {ErrSnapshotVersion, "version 6, of a newer program; this one reads version 5"},
		headOf(4, ""):        {ErrSnapshotVersion, "of an older program"},
		headOf(5, ""):        {ErrSnapshotDamaged, "WithRegion"},
		headOf(5, `"US"`):    {ErrSnapshotDamaged, "it has no world"},
	} {
		_, err := LoadSnapshot(strings.NewReader(file))
		require.ErrorIs(t, err, want.kind)
		require.ErrorContains(t, err, want.says)
	}
	_, err := Start(WithSnapshot(nil))
	require.Error(t, err)
	var file bytes.Buffer
	require.NoError(t, New(t, WithInMemory(), WithSeed(3)).Save(&file))
	require.ErrorContains(t, New(t, WithInMemory()).Load(&file), "another seed")
}

func headOf(version int, region string) string {
	return fmt.Sprintf(`{"Format":%q,"Version":%d,"Region":%s}`, snapshotFormat, version, cmp.Or(region, `""`))
}

// A state file of a large world: what a stand-alone platform writes.
func BenchmarkSaveLargeWorld(b *testing.B) {
	snap := New(b, WithInMemory(), WithWorldSize(model.LargeWorld())).Snapshot()
	for b.Loop() {
		var file bytes.Buffer
		if err := snap.Save(&file); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(file.Len()))
	}
}

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
	activate(b.t, b.fake)
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
	activate(b.t, b.fake)
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
