package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
)

func TestDosageReadsNamesOfPlans(t *testing.T) {
	t.Parallel()
	want := catalog.Dosage{Amount: "2", Frequency: "every night", Duration: "9", Format: "capsule", AdditionalInfo: "with food"}
	for _, body := range []string{
		`{"recommended_amount":"2","recommended_frequency":"every night","recommended_duration":9,"format":"capsule","additional_info":"with food"}`,
		`{"amount":2,"frequency":"every night","duration":"9","format":"capsule","additional_info":"with food"}`,
		`{"amount":"1","recommended_amount":"2","recommended_frequency":"","frequency":"every night","duration":"9","recommended_duration":null,"format":"capsule","additional_info":"with food"}`,
	} {
		var got catalog.Product
		invalid, err := jsondecode.Unmarshal([]byte(`{"custom_dosage":`+body+`}`), &got)
		require.NoError(t, err)
		assert.Empty(t, invalid)
		assert.Equal(t, &want, got.CustomDosage, body)
	}
}
