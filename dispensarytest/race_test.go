//go:build race

package dispensarytest

import "github.com/dispensary-go/dispensary/internal/testsize"

func init() { walkDefault = testsize.Of(4_000, 20_000) }
