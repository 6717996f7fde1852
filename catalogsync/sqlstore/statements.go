package sqlstore

import (
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// statements are the SQL statements of a store in its dialect.
type statements struct {
	lockState, saveState, state string

	// for a page and the end of a walk
	known, mark, putProducts, putDocuments string
	unlisted, missing, gone                string

	record, records, changes, attributes, undetailed string
	request, requested, drop                         string
}

const (
	productColumns = `number, id, revision, presence, generation, read_at, details_at, hash, listed`

	// selectRows has the columns in the order of scanRow.
	selectRows = `SELECT p.number, p.id, p.revision, p.presence, p.generation, p.read_at, p.details_at, p.hash, p.listed, d.attributes, d.document
		FROM dispensary_catalog_products AS p JOIN dispensary_catalog_documents AS d ON d.number = p.number`

	// An existing row keeps its number and id.
	replaceProduct = ` ON CONFLICT (number) DO UPDATE SET revision = excluded.revision, presence = excluded.presence, generation = excluded.generation,
		read_at = excluded.read_at, details_at = excluded.details_at, hash = excluded.hash, listed = excluded.listed`
	replaceDocument = ` ON CONFLICT (number) DO UPDATE SET attributes = excluded.attributes, document = excluded.document`
)

// newStatements returns the statements of a dialect. A list of ids, numbers or rows is one
// parameter, a JSON array.
func newStatements(dialect string) statements {
	ids, numbers, greatest, lock, json := `json_each($1)`, `json_each($1)`, `max`, ``, ``
	rows := `(SELECT value ->> 'number' AS number, value ->> 'id' AS id, value ->> 'revision' AS revision, value ->> 'presence' AS presence,
			value ->> 'generation' AS generation, value ->> 'read_at' AS read_at, value ->> 'details_at' AS details_at, value ->> 'hash' AS hash,
			value ->> 'listed' AS listed, value ->> 'attributes' AS attributes, value ->> 'document' AS document FROM json_each($1))`
	if dialect == sqlschema.PostgreSQL {
		ids, greatest, lock, json = `json_array_elements_text($1::json) AS ids(value)`, `greatest`, ` FOR UPDATE`, `::json`
		numbers = `(SELECT value::bigint FROM ` + ids + `) AS numbers`
		rows = `json_to_recordset($1::json) AS r(number bigint, id text, revision bigint, presence text, generation bigint,
			read_at bigint, details_at bigint, hash text, listed text, attributes text, document text)`
	}
	names := strings.NewReplacer("{ids}", ids, "{numbers}", numbers, "{rows}", rows, "{json}", json, "{greatest}", greatest,
		"{MaxRead}", strconv.FormatInt(catalogstore.MaxRead.Microseconds(), 10))
	sql := func(parts ...string) string { return names.Replace(strings.Join(parts, "")) }
	unlist := func(condition string) string {
		return sql(`UPDATE dispensary_catalog_products SET presence = $2, revision = CAST($3 AS bigint) + unlisted.rank
			FROM (SELECT number, row_number() OVER (ORDER BY number) AS rank FROM dispensary_catalog_products
				WHERE presence = $4 AND generation < $5 AND `, condition, `) AS unlisted
			WHERE dispensary_catalog_products.number = unlisted.number`)
	}
	return statements{
		lockState: sql(`SELECT revision, newest, complete FROM dispensary_catalog_state`, lock),
		saveState: sql(`UPDATE dispensary_catalog_state SET revision = $1, newest = $2, complete = $3`),
		state: sql(`SELECT s.revision, s.newest, s.complete, (SELECT count(*) FROM dispensary_catalog_requests), p.present, p.missing, p.gone, p.detailed
			FROM dispensary_catalog_state AS s, (SELECT count(*) FILTER (WHERE presence = 'present') AS present, count(*) FILTER (WHERE presence = 'missing') AS missing,
				count(*) FILTER (WHERE presence = 'gone') AS gone, count(*) FILTER (WHERE presence <> 'gone' AND details_at IS NOT NULL) AS detailed
				FROM dispensary_catalog_products) AS p`),

		known:        sql(`SELECT id, number, presence, generation, listed FROM dispensary_catalog_products WHERE id IN (SELECT value FROM {ids})`),
		mark:         sql(`UPDATE dispensary_catalog_products SET generation = $2, read_at = CASE WHEN read_at BETWEEN $3 AND CAST($3 AS bigint) + {MaxRead} THEN read_at ELSE $3 END WHERE number IN (SELECT value FROM {numbers})`),
		putProducts:  sql(`INSERT INTO dispensary_catalog_products (`, productColumns, `) SELECT `, productColumns, ` FROM {rows} WHERE true`, replaceProduct),
		putDocuments: sql(`INSERT INTO dispensary_catalog_documents (number, attributes, document) SELECT number, attributes{json}, document{json} FROM {rows} WHERE true`, replaceDocument),
		unlisted:     sql(`SELECT id FROM dispensary_catalog_products WHERE presence = $1 AND generation < $2 AND read_at NOT BETWEEN $3 AND CAST($3 AS bigint) + {MaxRead} ORDER BY read_at, id LIMIT $4`),
		missing:      unlist(`read_at NOT BETWEEN $1 AND CAST($1 AS bigint) + {MaxRead}`),
		gone:         unlist(`id IN (SELECT value FROM {ids})`),

		record:  sql(selectRows, ` WHERE p.id = $1`),
		records: sql(selectRows, ` WHERE p.number IN (SELECT value FROM {numbers})`),
		changes: sql(selectRows, ` WHERE p.revision > $1 ORDER BY p.revision LIMIT $2`),
		attributes: sql(`SELECT p.number, p.id, d.attributes FROM dispensary_catalog_products AS p JOIN dispensary_catalog_documents AS d ON d.number = p.number
			WHERE p.number > $1 ORDER BY p.number LIMIT $2`),
		undetailed: sql(`SELECT id FROM dispensary_catalog_products WHERE id > $1 AND details_at IS NULL AND presence <> 'gone' ORDER BY id LIMIT $2`),

		request: sql(`INSERT INTO dispensary_catalog_requests (product_id, requested_at) SELECT DISTINCT value, CAST($2 AS bigint) FROM {ids} WHERE true ORDER BY 1
			ON CONFLICT (product_id) DO UPDATE SET requested_at = {greatest}(excluded.requested_at, dispensary_catalog_requests.requested_at + 1)`),
		requested: sql(`SELECT product_id, requested_at FROM dispensary_catalog_requests ORDER BY requested_at, product_id LIMIT $1`),
		drop:      sql(`DELETE FROM dispensary_catalog_requests WHERE product_id = $1 AND requested_at <= $2`),
	}
}
