package dispensarytest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	p := start(t).fake
	_, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.NewOrder{})
	require.NoError(t, err)
	_, _, err = p.Patients.Register(model.NewPatient{})
	require.NoError(t, err)

	o := p.Overview(2)
	assert.Equal(t, lastTwo(p.Patients.All()), o.Patients)
	assert.Equal(t, lastTwo(p.Plans.All()), o.Plans)
	assert.Equal(t, lastTwo(p.Orders.All()), o.Orders)
	assert.Equal(t, lastTwo(p.Products.All()), o.Products)
	assert.Equal(t, lastTwo(p.Events()), o.Events)
	assert.Equal(t, []int{len(p.Patients.All()), len(p.Plans.All()), len(p.Orders.All()), len(p.Products.All()), 2},
		[]int{o.Totals.Patients, o.Totals.Plans, o.Totals.Orders, o.Totals.Products, o.Totals.Events})

	o.Orders[0].Lines[0].Quantity = 99
	assert.NotEqual(t, 99, p.Overview(1).Orders[0].Lines[0].Quantity, "it is a copy")
	assert.Len(t, p.Overview(100).Events, 2, "no more than there are")
	assert.Empty(t, p.Overview(0).Events)
}

func lastTwo[T any](rows []T) []T {
	rows = rows[len(rows)-2:]
	slices.Reverse(rows)
	return rows
}
