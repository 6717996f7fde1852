package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Only treatment_plan is documented as required: with a practitioner's own token the
// practitioner may be left out, with any other it may not.
func TestLinksWithoutPractitioner(t *testing.T) {
	t.Parallel()
	body := map[string]any{"treatment_plan": map[string]any{}}
	const path = "/clinic/dynamic_links/treatment_plans"
	b := start(t, WithInMemory())
	b.token = b.fake.Tokens.Issue(b.fake.Users()[1]).AccessToken
	b.send("POST", path, body).ok(200)
	plans := b.fake.Plans.All()
	assert.Equal(t, b.fake.Users()[1].ID, plans[len(plans)-1].PractitionerID)
	b.token = b.fake.Tokens.Issue(b.fake.Users()[2]).AccessToken
	b.send("POST", path, body).refused(422, "Treatment plan.practitioner can't be blank")
	start(t, WithInMemory(), WithClinicTokens()).send("POST", path, body).refused(422, "can't be blank")
	start(t, WithInMemory(), WithBehavior(LinkPractitionerRequired)).send("POST", path, body).refused(422, "can't be blank")
	assert.Len(t, b.fake.Plans.All(), len(plans))
}
