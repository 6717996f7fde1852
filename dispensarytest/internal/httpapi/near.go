package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func nearOperation(r *model.Request, operation string) {
	r.Near = append(r.Near, operation)
	slices.Sort(r.Near)
}
