package catalogsync_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/catalogsync"
)

func TestSearchFindsBarcodes(t *testing.T) {
	t.Parallel()
	forms := map[string][]string{
		"UPC-A":  {"036000291452", "0036000291452", "00036000291452", "36000291452", "0 36000 29145 2", "0-36000-29145-2", "００３６０００２９１４５２"},
		"EAN-8":  {"00123457", "0000000123457", "00000000123457", "0012 3457"},
		"EAN-13": {"4006381333931", "04006381333931", "4 006381 333931"},
	}
	for kind, codes := range forms {
		for _, stored := range codes {
			x := newSearcher(t, entry("Zinc", "Kelp", "ZN-30", stored), entry("Iron", "Kelp", "IR-30", "078000113464"))
			for _, typed := range codes {
				assert.Equal(t, []string{"Zinc"}, names(t, x, catalogsync.SearchOptions{Query: typed}), "%s: %s typed for %s", kind, typed, stored)
			}
		}
	}
}

func TestSearchKeepsZerosOfOtherCodes(t *testing.T) {
	t.Parallel()
	x := newSearcher(t, entry("Zinc", "Kelp", "00-4711", ""), entry("Iron", "Kelp", "A004711999", ""), entry("Kelp Leaf", "Kelp", "", "00000000"), entry("Nettle", "Kelp", "", "123456789012345678"))
	for query, want := range map[string][]string{
		"004711": {"Zinc"}, "4711": {"Zinc"}, "0004711": nil, "000000000000": nil, "00000000": {"Kelp Leaf"}, "00123456789012345678": nil,
	} {
		assert.Equal(t, want, names(t, x, catalogsync.SearchOptions{Query: query}), query)
	}
}
