package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestProtocolLifecycle(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	practitioner := b.fake.Clinics.Practitioners()[0].ID
	variant := b.fake.Products.All()[0].VariantIDs[0]
	before := len(b.fake.Protocols.All())
	created, err := b.fake.Protocols.Create(model.NewProtocol{Name: "Spring", PersonalMessage: "Walk a lot.", Draft: true,
		Recommendations: []model.ProtocolRecommendation{{VariantID: variant, Quantity: 2, Refill: true, Permutations: "with food", Dosage: model.Dosage{Amount: "1"}}}})
	require.NoError(t, err)
	shown := func() map[string]any { return b.get("/clinic/protocols/"+created.ID).object(200, "protocol") }
	protocol := shown()
	assert.Equal(t, "draft", protocol["current_state"])
	assert.Equal(t, map[string]any{"id": practitioner}, protocol["practitioner"])
	line := protocol["recommendations"].([]any)[0].(map[string]any)
	assert.Equal(t, variant, line["variant_id"])
	assert.EqualValues(t, 2, line["quantity_recommended"])
	assert.Contains(t, b.get("/clinic/practitioners/"+practitioner+"/protocols?current_state=draft").column("protocols", "name"), "Spring")

	_, err = b.fake.Protocols.Activate(created.ID)
	require.NoError(t, err)
	_, err = b.fake.Protocols.Update(created.ID, model.ProtocolChange{Name: new("Summer"), PersonalMessage: new(""), Ownership: new(model.ProtocolShared)})
	require.NoError(t, err)
	protocol = shown()
	assert.Equal(t, []any{"active", "Summer", nil}, []any{protocol["current_state"], protocol["name"], protocol["personal_message"]})
	other := b.fake.Clinics.Practitioners()[1].ID
	assert.Contains(t, b.get("/clinic/practitioners/"+other+"/protocols?ownership_type=shared").column("protocols", "name"), "Summer")

	cancelled, err := b.fake.Protocols.Cancel(created.ID)
	require.NoError(t, err)
	assert.Equal(t, "cancelled", shown()["current_state"])
	cancelled.Recommendations[0].Quantity = 99
	stored, known := b.fake.Protocols.Get(created.ID)
	assert.True(t, known)
	assert.Equal(t, 2, stored.Recommendations[0].Quantity, "callers get a copy")

	made, err := b.fake.Protocols.Create(model.NewProtocol{})
	require.NoError(t, err)
	assert.Equal(t, "active", made.State)
	assert.NotEmpty(t, made.Name)
	assert.Len(t, made.Recommendations, 1)
	assert.Len(t, b.fake.Protocols.All(), before+2)
	assert.Empty(t, b.fake.Events(), "the API has no event type for protocols")

	assert.Equal(t, b.fake.Protocols.All(), restarted(t, b.fake).Protocols.All())
}

func TestProtocolActionsRefuse(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	byState := map[string]string{}
	for _, p := range fake.Protocols.All() {
		byState[p.State] = p.ID
	}
	gone, active := byState[model.StateCancelled], byState[model.StateActive]
	variant := fake.Products.All()[0].VariantIDs[0]
	one := func(_ model.Protocol, err error) error { return err }
	for _, c := range []struct {
		err  error
		kind error
		says string
	}{
		{one(fake.Protocols.Create(model.NewProtocol{PractitionerID: "x"})), model.ErrNotFound, "no practitioner"},
		{one(fake.Protocols.Create(model.NewProtocol{Ownership: "mine"})), model.ErrInvalid, `ownership "mine"`},
		{one(fake.Protocols.Create(model.NewProtocol{Recommendations: []model.ProtocolRecommendation{{VariantID: "x", Quantity: 1}}})), model.ErrNotFound, "no variant"},
		{one(fake.Protocols.Create(model.NewProtocol{Recommendations: []model.ProtocolRecommendation{{VariantID: variant}}})), model.ErrInvalid, "quantity"},
		{one(fake.Protocols.Update("x", model.ProtocolChange{})), model.ErrNotFound, "no protocol"},
		{one(fake.Protocols.Update(active, model.ProtocolChange{Name: new("")})), model.ErrInvalid, "needs a name"},
		{one(fake.Protocols.Update(gone, model.ProtocolChange{})), model.ErrState, "is cancelled"},
		{one(fake.Protocols.Activate(active)), model.ErrState, "is active"},
		{one(fake.Protocols.Cancel(gone)), model.ErrState, "is cancelled"},
	} {
		require.ErrorIs(t, c.err, c.kind)
		require.ErrorContains(t, c.err, c.says)
		var typed *model.ActionError
		require.ErrorAs(t, c.err, &typed)
	}
}
