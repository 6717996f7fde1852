package columns_test

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
)

// databases contains the column types for a date and a price in each database, by driver.
var databases = map[string][]struct{ date, price string }{
	"sqlite": {{"DATE", "TEXT"}, {"TEXT", "TEXT"}},
	"pgx":    {{"date", "numeric(12, 2)"}, {"text", "text"}},
	"mysql":  {{"DATE", "DECIMAL(12, 2)"}, {"TEXT", "TEXT"}},
}

// row is the purchase of a patient.
type row struct {
	Born  api.Date
	Price api.Decimal
}

func TestScalarsKeepTheirValue(t *testing.T) {
	t.Parallel()
	for driver, columns := range databases {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db := open(t, driver)
			for i, of := range columns {
				table := "purchases_" + strconv.Itoa(i)
				_, err := db.ExecContext(t.Context(), "CREATE TABLE "+table+" (number INTEGER PRIMARY KEY, born "+of.date+", price "+of.price+")")
				require.NoError(t, err)
				for number, want := range []row{
					{}, // NULL
					{api.Date{Year: 1984, Month: 2, Day: 29}, "12.50"},
					{api.Date{Year: 1900, Month: 1, Day: 1}, "-0.01"},
					{api.Date{Year: 2026, Month: 12, Day: 31}, "1234567890.12"}, // not exact as a float
				} {
					_, err := db.ExecContext(t.Context(), parameters(driver, "INSERT INTO "+table+" VALUES (?, ?, ?)"), number, want.Born, want.Price)
					require.NoError(t, err)
					var got row
					query := db.QueryRowContext(t.Context(), parameters(driver, "SELECT born, price FROM "+table+" WHERE number = ?"), number)
					require.NoError(t, query.Scan(&got.Born, &got.Price), "%v", of)
					assert.Equal(t, want, got, "%v", of)
				}
				var nulls int
				require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table+" WHERE born IS NULL AND price IS NULL").Scan(&nulls))
				assert.Equal(t, 1, nulls)
				_, err = db.ExecContext(t.Context(), parameters(driver, "INSERT INTO "+table+" (number, price) VALUES (?, ?)"), 9, api.Decimal("canary"))
				require.ErrorIs(t, err, api.ErrArgument)
			}
		})
	}
}

func TestDecimalRejectsFloatColumn(t *testing.T) {
	t.Parallel()
	var price api.Decimal
	err := open(t, "sqlite").QueryRowContext(t.Context(), "SELECT 47.11 AS price").Scan(&price)
	require.ErrorIs(t, err, api.ErrArgument)
	assert.ErrorContains(t, err, "decimal cannot be read from float64: use a DECIMAL or TEXT column")
	assert.NotContains(t, err.Error(), "47.11")
}

func open(t *testing.T, driver string) *sql.DB {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ehr.db")
	if driver != "sqlite" {
		name = sqltest.Database(t, driver)
	}
	db, err := sql.Open(driver, name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// parameters replaces the placeholders of a query by those of its driver.
func parameters(driver, query string) string {
	if driver != "pgx" {
		return query
	}
	for _, number := range []string{"$1", "$2", "$3"} {
		query = strings.Replace(query, "?", number, 1)
	}
	return query
}
