package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/catalogsync"
)

// foundDocument is what search prints with --json.
type foundDocument struct {
	Hits       []catalogsync.Hit `json:"hits"`
	AsOf       time.Time         `json:"as_of"`
	AgeSeconds int64             `json:"age_seconds"`
}

func (p *program) catalogSearchCommand() *cobra.Command {
	var store catalogStore
	var o catalogsync.SearchOptions
	command := &cobra.Command{
		Use:   "search [QUERY...]",
		Short: "Search the copy of the catalog, without a network",
		Long: `Search finds products by words of their name and brand, or the beginnings of these, in any
order; by a SKU or UPC, or a beginning of it; and with one typing error in a word of four letters
or more. The best are first. It calls nothing, and says how old the copy is: what is to be
prescribed has to be read from the platform again.

Without a query it lists what the filters keep. Ingredients and allergens are those that
dispensary catalog sync --filters read.`,
		Example: `  dispensary catalog search magn glyc
  dispensary catalog search 012345678905 --json
  dispensary catalog search zinc --brand 9a1c3e8e-0c6f-4d9b-8a34-5d3c0e6a1b2f --limit 20`,
		RunE: func(command *cobra.Command, words []string) error {
			o.Query = strings.Join(words, " ")
			if o.Query == "" && o.BrandID == "" && len(o.IngredientIDs)+len(o.AllergenIDs) == 0 {
				return errors.New("search wants a query, --brand, --ingredient or --allergen")
			}
			if o.Limit < 1 {
				return fmt.Errorf("--limit: must be from 1 to %d", catalogsync.MaxLimit)
			}
			return p.catalogSearch(command.Context(), store, o)
		},
	}
	flags := command.Flags()
	store.define(flags)
	flags.IntVar(&o.Limit, "limit", catalogsync.DefaultLimit, "`NUMBER` of products at most")
	flags.StringVar(&o.BrandID, "brand", "", "products of the brand `ID` only")
	flags.StringArrayVar(&o.IngredientIDs, "ingredient", nil, "products with the ingredient `ID` only; may be repeated")
	flags.StringArrayVar(&o.AllergenIDs, "allergen", nil, "products with the allergen attribute `ID` only; may be repeated")
	return command
}

// catalogSearch searches an index that it makes of the copy.
func (p *program) catalogSearch(ctx context.Context, s catalogStore, o catalogsync.SearchOptions) error {
	store, err := s.open(ctx, p, false)
	if err != nil {
		return err
	}
	defer func() { _ = store.db.Close() }() // it is only read
	index, err := catalogsync.ReadIndex(ctx, store)
	if err != nil {
		return store.problem(err)
	}
	result, err := index.Search(o)
	if err != nil {
		return inCatalogFlags(err)
	}
	if p.json {
		return failed(p.printJSON(foundDocument{result.Hits, index.AsOf(), int64(result.Age.Seconds())}))
	}
	var rows [][]string
	for _, h := range result.Hits {
		rows = append(rows, []string{h.Name, h.Brand, h.SKU, h.UPC, string(h.VariantStatus), h.VariantID})
	}
	if len(rows) > 0 {
		if err := p.print(nil, []string{"NAME", "BRAND", "SKU", "UPC", "STATUS", "VARIANT"}, rows); err != nil {
			return failed(err)
		}
	}
	fmt.Fprintf(p.errOut, "%d found, as of %s ago\n", len(rows), age(result.Age))
	return nil
}
