package store

import (
	"bytes"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Detached copies what a row points to, so that callers cannot change the
// platform, or the world it shares with others, through what they were given.
func Detached[T any](row T) T {
	switch row := any(&row).(type) {
	case *model.Event:
		row.Data = bytes.Clone(row.Data)
	case *model.Order:
		row.PlanIDs, row.Lines = slices.Clone(row.PlanIDs), slices.Clone(row.Lines)
	case *model.Brand:
		row.ClinicIDs = slices.Clone(row.ClinicIDs)
	case *model.Plan:
		row.Recommendations = CloneRecommendations(row.Recommendations)
	case *model.Product:
		for _, ids := range []*[]string{&row.VariantIDs, &row.AllergenIDs, &row.IngredientIDs, &row.CertificationIDs, &row.CategoryIDs} {
			*ids = slices.Clone(*ids)
		}
	}
	return row
}

func CloneRecommendations(from []model.Recommendation) []model.Recommendation {
	lines := slices.Clone(from)
	for i := range lines {
		if lines[i].Dosage != nil {
			lines[i].Dosage = new(*lines[i].Dosage)
		}
	}
	return lines
}
