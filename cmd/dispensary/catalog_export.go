package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// exportCommand is the command with its flags.
type exportCommand struct {
	catalogStore
	output  string
	since   int64
	changes bool // only those after since
}

func newExportCommand(p *program) *cobra.Command {
	c := exportCommand{catalogStore: catalogStore{program: p}}
	command := &cobra.Command{
		Use:   "export",
		Short: "Write the copy of the catalog as CSV or JSON lines",
		Long: `Export writes all products of the copy that are not gone, or with --changes-since what changed
after a revision, with those that are gone, and nothing else: write it to another file than the
whole. At the end it says the revision to ask for next time, on stderr. A product that changes
meanwhile may be there twice: the later one counts.

CSV has a row for each variant that is known: the primary one, or all of those products whose
details were read. A cell that a spreadsheet would take for a formula begins with an apostrophe.
With --json each line is a product with everything that was read of it. A file is written as a whole
or not at all.`,
		Example: `  dispensary catalog export --output products.csv
  dispensary catalog export --json | jq -r .product.name
  dispensary catalog export --changes-since 20150 --json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			c.changes = command.Flags().Changed("changes-since")
			return c.run(command.Context())
		},
	}
	flags := command.Flags()
	c.catalogStore.define(flags)
	flags.StringVar(&c.output, "output", "", "write to `FILE`, which is replaced; to stdout unless set")
	flags.Int64Var(&c.since, "changes-since", 0, "what changed after `REVISION`, as the last export said it")
	return command
}

// run writes the copy.
func (c *exportCommand) run(ctx context.Context) error {
	if c.since < 0 {
		return errors.New("--changes-since: not a revision")
	}
	store, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = store.db.Close() }() // it is only read
	state, err := store.State(ctx)
	if err == nil && state.Revision == 0 {
		err = catalogsync.ErrNotLoaded
	}
	if err != nil {
		return store.problem(err)
	}
	if c.since > state.Revision {
		return fmt.Errorf("--changes-since: the newest revision is %d", state.Revision)
	}
	to, err := newExportFile(c.output, c.out)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	defer to.discard()
	products, revision, err := c.write(ctx, store, to)
	if err == nil {
		err = to.commit()
	}
	if err != nil {
		return failed(err)
	}
	next := fmt.Sprintf("next time: --changes-since %d", revision)
	if c.output != "" {
		next += ", into another file: it writes the changes alone"
	}
	fmt.Fprintf(c.errOut, "%d products; %s\n", products, next)
	return nil
}

// write writes records in the order of their changes, and returns the last revision.
func (c *exportCommand) write(ctx context.Context, store catalogstore.Store, to io.Writer) (products int, revision int64, err error) {
	add := writeJSON(to)
	if !c.json {
		table := csv.NewWriter(to)
		defer func() { table.Flush(); err = cmp.Or(err, table.Error()) }()
		if err := table.Write(csvColumns); err != nil {
			return 0, 0, err
		}
		add = func(r catalogstore.Record) error { return table.WriteAll(csvRows(r)) }
	}
	const page = 500
	for revision = c.since; ; {
		records, err := store.Changes(ctx, revision, page)
		if err != nil {
			return products, revision, err
		}
		for _, r := range records {
			revision = r.Revision
			if r.Presence == catalogstore.PresenceGone && !c.changes {
				continue
			}
			products++
			if err := add(r); err != nil {
				return products, revision, err
			}
		}
		if len(records) < page {
			return products, revision, nil
		}
	}
}

// exportDocument is a line of JSON.
type exportDocument struct {
	Product       catalog.Product       `json:"product"`
	IngredientIDs []string              `json:"ingredient_ids"`
	AllergenIDs   []string              `json:"allergen_ids"`
	Presence      catalogstore.Presence `json:"presence"`
	Revision      int64                 `json:"revision"`
	Hash          string                `json:"hash"`
	ReadAt        time.Time             `json:"read_at"`
	DetailsAt     time.Time             `json:"details_at,omitzero"`
}

// writeJSON returns a function that writes a record as a line of JSON.
func writeJSON(to io.Writer) func(catalogstore.Record) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return func(r catalogstore.Record) error {
		return encoder.Encode(exportDocument{
			r.Product, append([]string{}, r.IngredientIDs...), append([]string{}, r.AllergenIDs...), r.Presence, r.Revision, r.Hash, r.ReadAt.UTC(), r.DetailsAt.UTC(),
		})
	}
}

// csvColumns are the names of what csvExporter writes.
var csvColumns = []string{
	"product_id", "name", "status", "brand_id", "brand", "brand_prefix", "variant_id", "primary", "sku", "upc", "supplier_sku", "units", "unit_of_measure", "msrp",
	"variant_status", "availability", "presence", "revision", "read_at",
}

// csvRows returns a row for each variant of a product that is known.
func csvRows(r catalogstore.Record) (rows [][]string) {
	variants := slices.Clone(r.Product.Variants)
	if primary := r.Product.PrimaryVariant; primary != nil && !slices.ContainsFunc(variants, func(v catalog.Variant) bool { return v.ID == primary.ID }) {
		variants = slices.Insert(variants, 0, *primary)
	}
	if len(variants) == 0 {
		variants = []catalog.Variant{{}}
	}
	p := r.Product
	for _, v := range variants {
		primary := v.ID != "" && (v.Primary || p.PrimaryVariant != nil && p.PrimaryVariant.ID == v.ID)
		row := []string{
			p.ID, p.Name, string(p.Status), p.Brand.ID, p.Brand.Name, p.Brand.Prefix, v.ID, strconv.FormatBool(primary), v.SKU, v.UPC, v.SupplierSKU,
			string(v.Units), v.UnitOfMeasure, string(v.MSRP), string(v.Status), v.Availability, string(r.Presence), strconv.FormatInt(r.Revision, 10), timeText(r.ReadAt),
		}
		for i := range row {
			row[i] = noFormula(row[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// noFormula is a text that no spreadsheet takes for a formula: names come from other machines.
func noFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
		return "'" + text
	}
	return text
}

// exportFile is where an export is written: stdout, or a file that takes the place of another
// one when it is whole.
type exportFile struct {
	*bufio.Writer
	file   *os.File // nil for stdout
	target string
}

// newExportFile opens the file of a name, or stdout for "" and "-".
func newExportFile(name string, stdout io.Writer) (*exportFile, error) {
	if name == "" || name == "-" {
		return &exportFile{Writer: bufio.NewWriter(stdout)}, nil
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the link stays one
	}
	if about, err := os.Stat(name); err == nil && !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file that could be replaced", name)
	}
	file, err := os.OpenFile(name+"."+rand.Text()[:8]+".tmp", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	return &exportFile{bufio.NewWriter(file), file, name}, nil
}

// commit ends the writing.
func (f *exportFile) commit() error {
	err := f.Flush()
	if f.file == nil || err != nil {
		return err
	}
	if err := errors.Join(f.file.Sync(), f.file.Close()); err != nil {
		return err
	}
	return os.Rename(f.file.Name(), f.target)
}

// discard removes what was not committed.
func (f *exportFile) discard() {
	if f.file != nil {
		_ = f.file.Close()
		_ = os.Remove(f.file.Name()) // renamed, it is there no more
	}
}
