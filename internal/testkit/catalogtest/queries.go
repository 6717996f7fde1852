package catalogtest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
)

// Query is the text that a user types to find one product.
type Query struct {
	Kind, Text, ProductID string
}

// The kinds of queries.
const (
	Beginnings   = "beginnings"
	TypingError  = "typing error"
	AnotherOrder = "another order"
	PartOfACode  = "part of a code"
)

// enough is the number of matching products at which a query is specific enough.
const enough = 5

// Queries returns n queries for random products, with the four kinds in turn: beginnings of
// words from the name and the brand, words with a typing error, words in another order, and a
// SKU, a UPC or a part of one. Words are added until at most five products match them, or
// until all words of the product are used.
func Queries(entries []catalogsync.Record, n int) []Query {
	random := rand.New(rand.NewPCG(2, uint64(n)))
	products := make([][]string, len(entries)) // by product, its words
	for i, e := range entries {
		products[i] = strings.Fields(strings.ToLower(e.Product.Name + " " + e.Product.Brand.Name))
	}
	queries := make([]Query, n)
	for i := range queries {
		number := random.IntN(len(entries))
		product := entries[number].Product
		q := Query{Kind: [...]string{Beginnings, TypingError, AnotherOrder, PartOfACode}[i%4], ProductID: product.ID}
		if q.Kind == PartOfACode {
			q.Text = partOfACode(product, random)
		} else {
			q.Text = strings.Join(typed(products, number, q.Kind, random), " ")
		}
		queries[i] = q
	}
	return queries
}

// typed returns the words that a user types to find a product.
func typed(products [][]string, number int, kind string, random *rand.Rand) []string {
	words := slices.Clone(products[number])
	chosen, alike := []int{}, products // alike are the products with all chosen words
	for _, at := range random.Perm(len(words)) {
		if kind == Beginnings && lettersOnly(words[at]) {
			words[at] = words[at][:3+random.IntN(len(words[at])-2)]
		}
		chosen = append(chosen, at)
		if alike = beginning(alike, words[at]); len(alike) <= enough {
			break
		}
	}
	if len(alike) > enough {
		words = products[number]
	}
	if kind != AnotherOrder {
		slices.Sort(chosen)
	}
	text := make([]string, len(chosen))
	for i, at := range chosen {
		text[i] = words[at]
	}
	if kind == TypingError {
		at := slices.IndexFunc(text, lettersOnly)
		if at < 0 {
			at, text = 0, slices.Insert(text, 0, words[0])
		}
		text[at] = mistype(text[at], random)
	}
	return text
}

// beginning returns the products with a word that begins with text.
func beginning(products [][]string, text string) (found [][]string) {
	for _, words := range products {
		if slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, text) }) {
			found = append(found, words)
		}
	}
	return found
}

// lettersOnly reports whether a word may be cut or mistyped. Numbers may not. All words of
// letters have at least four letters.
func lettersOnly(word string) bool { return !strings.ContainsFunc(word, unicode.IsDigit) }

// mistype removes, adds or replaces one letter, or swaps two neighbors.
func mistype(word string, random *rand.Rand) string {
	for {
		wrong := []byte(word)
		at, letter := random.IntN(len(word)), byte('a'+random.IntN(26))
		switch random.IntN(4) {
		case 0:
			wrong = slices.Delete(wrong, at, at+1)
		case 1:
			wrong = slices.Insert(wrong, at, letter)
		case 2:
			wrong[at] = letter
		default:
			next := min(at+1, len(wrong)-1)
			wrong[at], wrong[next] = wrong[next], wrong[at]
		}
		if string(wrong) != word {
			return string(wrong)
		}
	}
}

func partOfACode(p catalog.Product, random *rand.Rand) string {
	v := p.Variants[random.IntN(len(p.Variants))]
	_, withoutBrand, _ := strings.Cut(v.SKU, "-")
	withoutSize := v.SKU[:strings.LastIndex(v.SKU, "-")]
	return []string{v.SKU, withoutBrand, withoutSize, v.UPC, v.UPC[:10]}[random.IntN(5)]
}
