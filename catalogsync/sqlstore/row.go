package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// row is a stored record, with the columns of both tables.
type row struct {
	Number     int64   `json:"number"`
	ID         string  `json:"id"`
	Revision   int64   `json:"revision"`
	Presence   string  `json:"presence"`
	Generation int64   `json:"generation"` // of the newest walk that saw it, 0 if none did
	ReadAt     int64   `json:"read_at"`
	DetailsAt  *int64  `json:"details_at"`
	Hash       string  `json:"hash"`
	Listed     string  `json:"listed"`
	Attributes *string `json:"attributes"` // JSON, as text: PostgreSQL's json accepts texts that it cannot decode
	Document   string  `json:"document"`
}

// encode sets the columns of record.
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

// fill sets the columns of record except Attributes. listed and document are already encoded.
func (r *row) fill(record catalogstore.Record, listed string, document []byte) {
	r.ID, r.Revision, r.Presence, r.Hash, r.Listed = record.Product.ID, record.Revision, string(record.Presence), record.Hash, listed
	r.ReadAt, r.DetailsAt, r.Document = micros(record.ReadAt), nil, string(document)
	if !record.DetailsAt.IsZero() {
		r.DetailsAt = new(micros(record.DetailsAt))
	}
}

// encodeAttributes returns nil if there are none.
func encodeAttributes(a catalogstore.Attributes) (*string, error) {
	if len(a.IngredientIDs) == 0 && len(a.AllergenIDs) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(a)
	return new(string(encoded)), err
}

// record returns the decoded record of a row.
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

// put inserts rows and replaces rows with the same number.
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

// array encodes a list of ids or numbers as one parameter.
func array[T string | int64](values []T) string {
	if values == nil {
		return "[]"
	}
	encoded, _ := json.Marshal(values) // cannot fail for these types
	return string(encoded)
}

// text returns the text of a column, or "" for NULL.
func text(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}
