package transport

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// draft is a body with all that bodies of this module are made of.
type draft struct {
	Name     string               `json:"name"`
	Born     api.Date             `json:"born,omitzero"`
	Discount api.Percent          `json:"discount,omitempty"`
	Tag      *tag                 `json:"tag,omitempty"`
	Tags     []tag                `json:"tags,omitempty"`
	Changed  api.Optional[tag]    `json:"changed,omitzero"`
	Hidden   string               `json:"-"`
	Day      api.Optional[string] `json:"day,omitzero"`
}

type tag struct {
	ID   string       `json:"tag_id,omitempty"`
	Rate api.Decimal  `json:"rate,omitempty"`
	Of   *json.Number `json:"of,omitempty"`
}

func TestAllArgumentsThatCannotBeSentAreReported(t *testing.T) {
	t.Parallel()
	number := json.Number("x")
	_, _, err := sent(t, Call{
		Operation: operation.TreatmentPlanCreate, Path: []string{""}, Blank: Blank("name", " \t", "email", "x", "last_name", ""),
		Body: draft{
			Name: "x", Born: api.Date{Year: 1980, Month: 2, Day: 30}, Discount: api.Percent(math.Inf(1)),
			Tags: []tag{{ID: "x"}, {Rate: "canary"}}, Tag: &tag{Of: &number},
		},
		Query:   struct{ C choosy }{},
		Options: []api.RequestOption{api.ForClinicKey(""), api.WithHeader("Host", "x")},
	})
	assert.EqualError(t, err, "dispensary: treatment_plans.create: patient_id must be an id, CreatedAt ends before it begins, "+
		"name can't be blank, last_name can't be blank, born is not valid, discount is not valid, tag.of is not valid, tags[1].rate is not valid, "+
		"ClinicKey is empty, header Host is set by the client and cannot be changed for a call")
}

func TestListsReportAllThatCannotBeSent(t *testing.T) {
	t.Parallel()
	transport := &answers{}
	client := newTestClient(t, transport)
	_, err := List[thing](t.Context(), client, Call{Operation: operation.AddressList, Path: []string{"."}, Query: struct{ C choosy }{}}, api.Paging{Page: -1, PageSize: -1})
	assert.EqualError(t, err, "dispensary: addresses.list: patient_id must be an id, page[number] must not be negative, page[size] must not be negative, CreatedAt ends before it begins")
	assert.ErrorIs(t, err, api.ErrNotSent)
	assert.Zero(t, transport.calls.Load())
}
