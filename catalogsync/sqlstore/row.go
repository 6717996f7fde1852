package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// row is a record as it is stored, in both tables.
type row struct {
	Number     int64   `json:"number"`
	ID         string  `json:"id"`
	Revision   int64   `json:"revision"`
	Presence   string  `json:"presence"`
	Generation int64   `json:"generation"` // of the newest walk that saw it; 0 before
	ReadAt     int64   `json:"read_at"`
	DetailsAt  *int64  `json:"details_at"`
	Hash       string  `json:"hash"`
	Listed     string  `json:"listed"`
	Attributes *string `json:"attributes"` // JSON, as a text: there are texts that PostgreSQL's json takes and does not decode
	Document   string  `json:"document"`
}

// encode fills in what is the record's.
func (r *row) encode(record catalogstore.Record) error {
	listed, err := catalogstore.NewListed(record.ReadAt, record.Product)
	if err != nil {
		return err
	}
	document, err := json.Marshal(record.Product)
	if err != nil {
		return err
	}
	r.fill(record, listed.Hash, document)
	r.Attributes, err = encodeAttributes(record.Attributes)
	return err
}

// fill fills in what is encoded already.
func (r *row) fill(record catalogstore.Record, listed string, document []byte) {
	r.ID, r.Revision, r.Presence, r.Hash, r.Listed = record.Product.ID, record.Revision, string(record.Presence), record.Hash, listed
	r.ReadAt, r.DetailsAt, r.Document = micros(record.ReadAt), nil, string(document)
	if !record.DetailsAt.IsZero() {
		r.DetailsAt = new(micros(record.DetailsAt))
	}
}

// encodeAttributes returns nil where there are none.
func encodeAttributes(a catalogstore.Attributes) (*string, error) {
	if len(a.IngredientIDs) == 0 && len(a.AllergenIDs) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(a)
	return new(string(encoded)), err
}

// record decodes a row.
func (r *row) record() (record catalogstore.Record, err error) {
	record = catalogstore.Record{Hash: r.Hash, Presence: catalogstore.Presence(r.Presence), ReadAt: fromMicros(r.ReadAt), Revision: r.Revision}
	if r.DetailsAt != nil {
		record.DetailsAt = fromMicros(*r.DetailsAt)
	}
	err = json.Unmarshal([]byte(r.Document), &record.Product)
	if err == nil && r.Attributes != nil {
		err = json.Unmarshal([]byte(*r.Attributes), &record.Attributes)
	}
	if err != nil {
		return record, fmt.Errorf("product %s: %w", r.ID, err)
	}
	return record, nil
}

func scanRow(rows *sql.Rows) (r row, err error) {
	err = rows.Scan(&r.Number, &r.ID, &r.Revision, &r.Presence, &r.Generation, &r.ReadAt, &r.DetailsAt, &r.Hash, &r.Listed, &r.Attributes, &r.Document)
	return r, err
}

func scanRecord(rows *sql.Rows) (catalogstore.Record, error) {
	r, err := scanRow(rows)
	if err != nil {
		return catalogstore.Record{}, err
	}
	return r.record()
}

// put writes rows, in place of those that have their numbers.
func (t *tx) put(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	all, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	if _, err := t.exec(t.store.sql.putProducts, string(all)); err != nil {
		return err
	}
	_, err = t.exec(t.store.sql.putDocuments, string(all))
	return err
}

// array is a list of ids or numbers as a parameter.
func array[T string | int64](values []T) string {
	if values == nil {
		return "[]"
	}
	encoded, _ := json.Marshal(values) // which fails for neither
	return string(encoded)
}

// text is that of a column, and empty for NULL.
func text(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}
