package store

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// RegionSeed keeps the ids and secrets of the two regions apart.
func RegionSeed(seed uint64, region model.Region) uint64 {
	if region == model.Canada {
		return ids.Mix(seed ^ 0xca)
	}
	return seed
}
