package catalogsync_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

func named(t testing.TB, names ...string) *catalogsync.Searcher {
	t.Helper()
	var entries []catalogstore.Record
	for _, name := range names {
		entries = append(entries, entry(name, "Kelp", "", ""))
	}
	return newSearcher(t, entries...)
}

// Each spelling of a name, and each beginning of it, must find the product.
func TestSearchFindsOtherSpellings(t *testing.T) {
	t.Parallel()
	spellings := map[string][]string{
		"Vitamin D3 5,000 IU":           {"vitamin d3 5000", "d3 5,000", "5000 iu", "5000iu", "vitamind3", "d 3 5000", "d3 5 000"},
		"Vitamin D3 1000IU":             {"1000 iu", "1,000 iu", "d3 1 000"},
		"Vitamin C1000":                 {"vitamin c 1000", "c1000", "vitamin 1,000"},
		"Biotin 10 000 mcg":             {"biotin 10000", "biotin 10,000", "10 000 mcg", "10000mcg"},
		"Biotin 10\u00a0000 mcg":        {"biotin 10000"},
		"Omega 3 Fish Oil":              {"omega3", "omega-3", "omega 3", "fishoil", "omega3fishoil"},
		"Omega-3 1,200 mg":              {"omega3 1200", "omega 3 1,200"},
		"Omega3 1200mg":                 {"omega 3 1,200 mg", "omega-3", "3"},
		"Vitamin B 12":                  {"b12", "b-12", "vitamin b12"},
		"Vitamin B₁₂ Methylcobalamin":   {"b12", "b 12", "b₁₂"},
		"CO² Rosemary Extract":          {"co2", "co 2"},
		"Co Q 10":                       {"coq10", "co q10", "coq 10", "co-q-10"},
		"CoQ10":                         {"co q 10", "coq-10", "co q10", "10"},
		"Vitamin K 2 (MK 7)":            {"k2", "mk7", "vitamin k2 mk-7"},
		"Vitamin K2 MK7":                {"k 2", "mk 7"},
		"Multi Vitamin":                 {"multivitamin", "multi-vitamin"},
		"Multivitamin":                  {"multi vitamin", "multi-vitamin"},
		"ﬁber plus":                     {"fiber", "ﬁber plus"},
		"Ｏmega－３":                       {"omega 3", "omega3", "ｏmega３"},
		"Μαγνήσιο":                      {"μαγνησιο", "ΜΑΓΝΉΣΙΟ"},
		"维生素C 片":                        {"维生素", "生素c", "c片"},
		"Beta-1,3/1,6-D-Glucan":         {"beta 1,3", "1 3 glucan", "beta 1,3/1,6"},
		"Folate 2.5 mg":                 {"2.5", "folate 2.5mg", "2.5 mg"},
		"Quercetin & Bromelain":         {"quercetin and bromelain", "quercetin bromelain", "quercetin & bromelain", "bromelain and quercetin"},
		"Vitamin D3 + K2":               {"vitamin d3 and k2", "d3 + k2", "d3 k2", "d3k2", "vitamin d3+k2"},
		"Calcium＆Magnesium":             {"calcium and magnesium", "calciummagnesium"},
		"Hair, Skin and Nails":          {"hair skin & nails", "skin and nails", "skin nails"},
		"St. John's Wort":               {"st johns wort", "st john\u02BCs wort", "st john’s", "john\u02BBs"},
		"Crème à l'ail":                 {"ail", "l'ail", "lail", "l ail", "creme a l’ail", "creme a l ail"},
		"Huile d’onagre":                {"onagre", "d'onagre", "donagre", "huile d onagre"},
		"Qu'il 10'000":                  {"il", "quil", "qu'il", "10000", "10'000", "10,000"},
		"Probiotic 1,000,000,000 CFU’s": {"1000000000", "1,000,000,000 cfus"},
	}
	for name, typed := range spellings {
		x := named(t, name, "Zinc", "Nettle Leaf")
		for _, query := range typed {
			for end := range query {
				if end > 0 && len(strings.Trim(query[:end], " -,/.")) > 0 {
					assert.Contains(t, names(t, x, catalogsync.SearchOptions{Query: query[:end]}), name, "%q", query[:end])
				}
			}
			assert.Contains(t, names(t, x, catalogsync.SearchOptions{Query: query}), name, "%q", query)
		}
	}
}

func TestSearchKeepsNumbersApart(t *testing.T) {
	t.Parallel()
	x := named(t, "Iron 25 mg", "Iron 2.5 mg", "Iron 1/3", "Zinc 5,0", "Zinc 5,0000")
	assert.Equal(t, []string{"Iron 25 mg"}, names(t, x, catalogsync.SearchOptions{Query: "iron 25"}))
	assert.Equal(t, "Iron 2.5 mg", names(t, x, catalogsync.SearchOptions{Query: "iron 2.5"})[0])
	for _, query := range []string{"13", "50", "50000"} {
		assert.Empty(t, names(t, x, catalogsync.SearchOptions{Query: query}), query)
	}
}

// The word and stays a word: a product without it must not match.
func TestSearchRequiresAnd(t *testing.T) {
	t.Parallel()
	x := named(t, "Andrographis", "Magnesium & Zinc", "Skin Balm", "B + ", "+ C")
	assert.Equal(t, []string{"Andrographis", "Magnesium & Zinc"}, names(t, x, catalogsync.SearchOptions{Query: "and"}))
	assert.Equal(t, []string{"Andrographis"}, names(t, x, catalogsync.SearchOptions{Query: "andro"}))
	for _, query := range []string{"skin and", "magnesium and skin", "b and", "and c", "john s"} {
		assert.Empty(t, names(t, x, catalogsync.SearchOptions{Query: query}), query)
	}
}

// All spellings of a whole word must have the same rank, so that the length of the name
// decides.
func TestSearchRanksSpellingsAlike(t *testing.T) {
	t.Parallel()
	x := named(t, "Vitamin B12 Plus", "Vitamin B-12", "Vitamin B 12 Max", "Vitamin B₁₂ Mini", "Vitamin B120")
	assert.Equal(t, []string{"Vitamin B-12", "Vitamin B 12 Max", "Vitamin B12 Plus", "Vitamin B₁₂ Mini", "Vitamin B120"},
		names(t, x, catalogsync.SearchOptions{Query: "b12"}))
}

// The memory for a long name must be proportional to its length.
func TestIndexAcceptsLongNames(t *testing.T) {
	t.Parallel()
	x := named(t, strings.Repeat("b c ", 50_000), strings.Repeat("a", 200_000))
	assert.Len(t, names(t, x, catalogsync.SearchOptions{Query: strings.Repeat("bc", 100)}), 1)
	assert.Len(t, names(t, x, catalogsync.SearchOptions{Query: strings.Repeat("a", 200)}), 1)
}
