//go:build race

package dispensarytest

func init() { walkDefault = 20_000 }
