package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// oldReceiver is a receiver as it may have been written in an afternoon, two years ago.
// As long as nothing goes wrong it works. The numbers are those of [mistakes].
type oldReceiver struct {
	db        *sql.DB
	secret    string
	challenge string
	logger    *slog.Logger
	pack      func(eventID string) error
}

// oldSchema is what it leaves behind: the events that it has handled.
const oldSchema = `CREATE TABLE webhook_events (event_id TEXT PRIMARY KEY)`

// ServeHTTP implements [http.Handler].
func (o *oldReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.logger.Info("webhook", "body", string(body))                        // 1
	if o.secret != "" && !o.verify(r.Header.Get("SVC-Signature"), body) { // 2
		http.Error(w, "bad signature for "+string(body), http.StatusUnauthorized) // 3
		return
	}
	var payload struct {
		Event struct {
			ID   string
			Type string
			Data struct{ ID string }
		}
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if payload.Event.Type != "order.placed" {
		http.Error(w, "unknown type", http.StatusBadRequest) // 4
		return
	}
	if err := o.handle(r, payload.Event.ID, payload.Event.Data.ID); err != nil {
		o.logger.Error("not handled", "err", err) // 5
	}
	_, _ = fmt.Fprintf(w, `{"challenge":%q}`, o.challenge) // 6
}

// verify compares the digits of the last v1 with those of the body.
func (o *oldReceiver) verify(header string, body []byte) bool {
	values := map[string]string{}
	for _, element := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(element, "=")
		values[name] = value // 7
	}
	mac := hmac.New(sha256.New, []byte(o.secret))
	mac.Write([]byte(values["t"] + "." + string(body)))
	return hex.EncodeToString(mac.Sum(nil)) == values["v1"] // 8, 9
}

// handle ships an order within the request.
func (o *oldReceiver) handle(r *http.Request, eventID, orderID string) error {
	var known int
	err := o.db.QueryRowContext(r.Context(), `SELECT count(*) FROM webhook_events WHERE event_id = ?`, eventID).Scan(&known) // 10
	if err != nil || known > 0 {
		return err
	}
	if err := o.pack(eventID); err != nil { // 11
		return err
	}
	if _, err := o.db.ExecContext(r.Context(), `INSERT INTO shipments (event_id, order_id) VALUES (?, ?)`, eventID, orderID); err != nil {
		return err
	}
	_, err = o.db.ExecContext(r.Context(), `INSERT INTO webhook_events (event_id) VALUES (?)`, eventID) // 12
	return err
}

// mistakes are those of the old receiver, with the cases of receivercheck that they
// fail.
var mistakes = []struct {
	what  string
	cases []string
}{
	{"1. logs bodies", []string{"Always/QuietLogs"}},
	{"2. is open where the secret is not set, and takes an empty body for a broken event", []string{"Signature/FailsClosed", "Challenge/Probe"}},
	{"3. tells callers what they sent", []string{"Always/TellsNothing"}},
	{"4. refuses types that it has no use for", []string{"Signature/RawBytes", "Events/EveryType", "Events/UnknownType", "Events/MissingFields", "Events/OtherForms"}},
	{"5. acknowledges what it could not store", []string{"Delivery/StorageDown"}},
	{"6. answers as text/plain", []string{"Challenge/Answer", "Delivery/Repeated", "Always/Acknowledged"}},
	{"7. reads one of several signatures", []string{"Signature/TwoSignatures", "Signature/Rotated"}},
	{"8. compares digits in a time that tells how many are right", nil}, // cannot be seen from outside
	{"9. takes signatures of any age", []string{"Signature/Stale", "Signature/Future"}},
	{"10. looks first and inserts then, by the event's id alone", []string{"Delivery/Concurrent", "Delivery/Integrations"}},
	{"11. works inside of the request", []string{"Delivery/SlowHandler", "Always/InTime"}},
	{"12. forgets an event that it has shipped if it fails at the end", nil}, // cannot be provoked from outside
	{"13. looks neither at the method nor at the id", []string{"Challenge/OnlyPost", "Bodies/Malformed"}},
	{"14. knows one of the forms that an event comes in", []string{"Events/Payload", "Events/Bare", "Events/Wrapping"}},
}
