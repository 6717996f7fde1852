package sqlinbox

import "database/sql"

// cause is the key of a row of dispensary_inbox_causes.
type cause struct{ reason, kind, clinicID string }

// died counts a dead letter.
func died(t *tx, of cause, receivedAt, at int64) error {
	return t.exec(`INSERT INTO dispensary_inbox_causes VALUES (?1, ?2, ?3, 1, ?4, ?5, ?5) ON CONFLICT DO UPDATE
		SET events = events + 1, oldest = min(oldest, excluded.oldest), first = min(first, excluded.first), last = max(last, excluded.last)`,
		of.reason, of.kind, of.clinicID, receivedAt, at)
}

// causesOf returns the causes of the dead letters in a query.
func causesOf(t *tx, query string, args []any) (causes []cause, err error) {
	err = t.each("SELECT DISTINCT reason, type, clinic_id FROM dispensary_inbox WHERE seq IN (SELECT seq FROM ("+query+"))", args, func(rows *sql.Rows) error {
		var c cause
		err := rows.Scan(&c.reason, &c.kind, &c.clinicID)
		causes = append(causes, c)
		return err
	})
	return causes, err
}

// recount recalculates the rows of causes, because their first and last dead letters may be
// gone.
func recount(t *tx, causes []cause) error {
	for _, c := range causes {
		if err := t.exec("DELETE FROM dispensary_inbox_causes WHERE reason = ? AND type = ? AND clinic_id = ?", c.reason, c.kind, c.clinicID); err != nil {
			return err
		}
		err := t.exec(`INSERT INTO dispensary_inbox_causes
			SELECT reason, type, clinic_id, count(*), min(received_at), min(due_at), max(due_at) FROM dispensary_inbox
			WHERE state = 5 AND reason = ? AND type = ? AND clinic_id = ? GROUP BY 1, 2, 3`, c.reason, c.kind, c.clinicID)
		if err != nil {
			return err
		}
	}
	return nil
}
