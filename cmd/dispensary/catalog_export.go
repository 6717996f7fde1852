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
)

// exportCommand is the command with its flags.
type exportCommand struct {
	catalogFile
	output  string
	since   int64
	changes bool // export only products changed after since
}

func newExportCommand(p *program) *cobra.Command {
	c := exportCommand{catalogFile: catalogFile{program: p}}
	command := &cobra.Command{
		Use:   "export",
		Short: "Export the copy of the catalog as CSV or JSON lines",
		Long: `Export writes all products of the copy except gone ones. With --changes-since it writes only the
products changed after a revision, including gone ones: write these to another file than the full
export. At the end, export prints on stderr the revision for the next --changes-since.

CSV has one row for each known variant: the primary variant, or all variants of a product whose
details were read. If a spreadsheet would interpret a cell as a formula, the cell begins with an
apostrophe. With --json, each line is a product with all of its data in the copy. Export sends no
request and leaves the copy unchanged. It replaces the file of --output only after a complete
export.

Exit codes: 0 on success. 1 if the export fails. 2 if there is no copy, or a file cannot be opened.`,
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
	c.catalogFile.define(flags)
	flags.StringVar(&c.output, "output", "", "write to `FILE` and replace it (default: stdout)")
	flags.Int64Var(&c.since, "changes-since", 0, "export only changes after `REVISION`, printed by the last export")
	return command
}

// run exports the copy.
func (c *exportCommand) run(ctx context.Context) error {
	if c.since < 0 {
		return errors.New("--changes-since must not be negative")
	}
	products, err := c.open(ctx, catalogsync.Config{})
	if err != nil {
		return err
	}
	if newest := products.State().Revision; c.since > newest {
		return fmt.Errorf("--changes-since must be at most %d, the newest revision", newest)
	}
	to, err := newExportFile(c.output, c.out)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	defer to.discard()
	n, revision, err := c.write(products, to)
	if err == nil {
		err = to.commit()
	}
	if err != nil {
		return failed(err)
	}
	next := fmt.Sprintf("next time, use --changes-since %d", revision)
	if c.output != "" {
		next += " and another file, because it exports only changes"
	}
	fmt.Fprintf(c.errOut, "%d products; %s\n", n, next)
	return nil
}

// write writes records in the order of their revisions and returns the last revision.
func (c *exportCommand) write(products *catalogsync.Catalog, to io.Writer) (n int, revision int64, err error) {
	add := writeJSON(to)
	if !c.json {
		table := csv.NewWriter(to)
		defer func() { table.Flush(); err = cmp.Or(err, table.Error()) }()
		if err := table.Write(csvColumns); err != nil {
			return 0, 0, err
		}
		add = func(r catalogsync.Record) error { return table.WriteAll(csvRows(r)) }
	}
	revision = c.since
	for r := range products.Changes(c.since) {
		revision = r.Revision
		if r.Presence == catalogsync.PresenceGone && !c.changes {
			continue
		}
		n++
		if err := add(r); err != nil {
			return n, revision, err
		}
	}
	return n, revision, nil
}

// exportDocument is the JSON document of a product.
type exportDocument struct {
	Product       catalog.Product      `json:"product"`
	IngredientIDs []string             `json:"ingredient_ids"`
	AllergenIDs   []string             `json:"allergen_ids"`
	Presence      catalogsync.Presence `json:"presence"`
	Revision      int64                `json:"revision"`
	ReadAt        time.Time            `json:"read_at"`
	DetailsAt     time.Time            `json:"details_at,omitzero"`
}

// writeJSON returns a function that writes a record as a line of JSON.
func writeJSON(to io.Writer) func(catalogsync.Record) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return func(r catalogsync.Record) error {
		return encoder.Encode(exportDocument{
			r.Product, append([]string{}, r.IngredientIDs...), append([]string{}, r.AllergenIDs...), r.Presence, r.Revision, r.ReadAt.UTC(), r.DetailsAt.UTC(),
		})
	}
}

// csvColumns is the header of the CSV.
var csvColumns = []string{
	"product_id", "name", "status", "brand_id", "brand", "brand_prefix", "variant_id", "primary", "sku", "upc", "supplier_sku", "units", "unit_of_measure", "msrp",
	"variant_status", "availability", "presence", "revision", "read_at",
}

// csvRows returns a row for each known variant of a product, or one row without a variant.
func csvRows(r catalogsync.Record) (rows [][]string) {
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

// noFormula adds an apostrophe to text that a spreadsheet would interpret as a formula. The names
// of products come from the platform.
func noFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
		return "'" + text
	}
	return text
}

// exportFile is the destination of an export: stdout, or a temporary file that replaces target
// after a complete export.
type exportFile struct {
	*bufio.Writer
	file   *os.File // nil for stdout
	target string
}

// newExportFile creates a temporary file beside name. For "" and "-" it uses stdout.
func newExportFile(name string, stdout io.Writer) (*exportFile, error) {
	if name == "" || name == "-" {
		return &exportFile{Writer: bufio.NewWriter(stdout)}, nil
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // replace the target of a link, not the link
	}
	if about, err := os.Stat(name); err == nil && !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := os.OpenFile(name+"."+rand.Text()[:8]+".tmp", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	return &exportFile{bufio.NewWriter(file), file, name}, nil
}

// commit flushes the export and replaces the target.
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

// discard removes the temporary file if it was not committed.
func (f *exportFile) discard() {
	if f.file != nil {
		_ = f.file.Close()
		_ = os.Remove(f.file.Name()) // fails after commit has renamed the file
	}
}
