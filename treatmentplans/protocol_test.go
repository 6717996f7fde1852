package treatmentplans_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestProtocolRecommendationKeepsDuration(t *testing.T) {
	t.Parallel()
	var line treatmentplans.ProtocolRecommendation
	require.NoError(t, json.Unmarshal([]byte(`{"dosage_duration":"30"}`), &line))
	assert.Equal(t, treatmentplans.ProtocolRecommendation{DosageDuration: "30"}, line)
}
