// Ehr is an electronic health record (EHR) for three clinics in two countries. Practitioners connect their
// accounts, search the catalog on every keystroke, create plans from protocols, and see the orders.
//
//	go run ./examples/ehr
//
// Without a configuration it starts a fake platform for each country and stores everything in SQLite. For real
// platforms, and tokens in PostgreSQL, set the variables of integration.Load and EHR_CLINICS.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/ehr/fakes"
	"github.com/dispensary-go/dispensary/integration"
	_ "github.com/dispensary-go/dispensary/integration/sqlite"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/treatmentplans"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		fmt.Fprintln(os.Stderr, "ehr:", err)
		os.Exit(1)
	}
}

// run serves with the configured platforms, or with fakes if none is configured.
func run(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	config, clinics, end, err := fakes.Load("http://" + listener.Addr().String())
	defer end()
	if err != nil {
		return err
	}
	return serve(ctx, config, clinics, listener)
}

// ehr is the application.
type ehr struct {
	dispensary *integration.Integration
	clinics    map[string]string // the platform's clinic ID of each practice
	products   map[dispensary.Environment]*products
	brands     catalogsync.BrandCache
}

// serve opens the integration and serves until ctx is canceled or the server fails.
func serve(ctx context.Context, config integration.Config, clinics map[string]string, listener net.Listener) (err error) {
	e := ehr{clinics: clinics, products: map[dispensary.Environment]*products{dispensary.USSandbox: {}, dispensary.CanadaSandbox: {}}}
	var router webhook.Router
	router.OnOrderPlaced(e.orderPlaced)
	router.OnTreatmentPlanCreated(planChanged)
	router.OnTreatmentPlanUpdated(planChanged)
	e.dispensary, err = integration.Open(ctx, config, integration.Setup{
		Work:    webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient, Stale: webhook.StalePolicySkip},
		Connect: connect.Config{User: signedIn, Name: "Example EHR"},
		Accounts: accounts.Config{
			Locate: func(_ context.Context, id string) (dispensary.Environment, error) {
				return users[id].Environment, nil
			},
			Tokens: tokens.Config{Verify: e.verify},
		},
		Operations: admin.Config{Observer: admin.Observer{BodyOpened: func(r *http.Request, key webhook.Key) error {
			slog.InfoContext(r.Context(), "the operator opens the body of an event", "key", key.String())
			return nil
		}}},
		Drain:  -1, // no load balancer
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	if e.dispensary.DB == nil {
		return errors.Join(errors.New("DISPENSARY_INBOX is not sqlite: the table is in the file of the inbox"), e.dispensary.Shutdown(ctx))
	}
	const care = `CREATE TABLE IF NOT EXISTS care (id TEXT PRIMARY KEY, clinic TEXT, patient TEXT, kind TEXT, text TEXT)`
	if _, err := e.dispensary.DB.ExecContext(ctx, care); err != nil {
		return errors.Join(err, e.dispensary.Shutdown(ctx))
	}
	return e.dispensary.Serve(ctx, &http.Server{Handler: e.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}, listener)
}

// user is a user of the EHR.
type user struct {
	Name, Clinic string
	Practice     string // the key of ehr.clinics
	Environment  dispensary.Environment
	Home         string // the first page; empty means the list of patients
	Account      accounts.Account
}

// verify accepts only accounts of the user's own clinic. Otherwise the patients of another
// clinic would appear as those of the user.
func (e *ehr) verify(_ context.Context, grant tokens.Authorization) error {
	switch want := e.clinics[users[grant.Key.User].Practice]; grant.Clinic.ID {
	case "":
		return tokens.ErrUndecided
	case want:
		return nil
	}
	return errors.New("the account belongs to another clinic")
}

// users contains the users by the EHR's own IDs. The operator sees no patients.
var users = map[string]user{
	"osei":        {Name: "Dr. Amara Osei", Clinic: "Maple Hollow, Portland", Practice: "maple-hollow", Environment: dispensary.USSandbox},
	"fitzwilliam": {Name: "Dr. Dmitri Fitzwilliam", Clinic: "Two Rivers, Salem", Practice: "two-rivers", Environment: dispensary.USSandbox},
	"whitcombe":   {Name: "Dr. Daniel Whitcombe", Clinic: "Birch Harbour, Ottawa", Practice: "birch-harbour", Environment: dispensary.CanadaSandbox},
	"park":        {Name: "Jo Park", Clinic: "Operations", Home: "/operations/"},
}

func (e *ehr) routes() http.Handler {
	mux := http.NewServeMux()
	e.dispensary.Mount(mux) // the browser flow, webhooks, health
	mux.HandleFunc("/operations/", func(w http.ResponseWriter, r *http.Request) {
		if id, _ := signedIn(r); users[id].Home != "/operations/" {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		http.StripPrefix("/operations", e.dispensary.Operations).ServeHTTP(w, r)
	})
	mux.Handle("GET /pages/style.css", http.FileServerFS(files))
	mux.Handle("GET /pages/search.js", http.FileServerFS(files))
	mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusOK, "Sign in", user{}, users) })
	mux.HandleFunc("POST /sign-in", signIn)
	mux.HandleFunc("POST /sign-out", signOut)
	mux.Handle("GET /{$}", e.page(e.patients))
	mux.Handle("GET /catalog", e.page(e.catalog))
	mux.Handle("GET /catalog/{variant}", e.page(e.variant))
	mux.Handle("GET /search", e.page(e.search))
	mux.Handle("/patients/{patient}/plan", e.page(e.plan))
	mux.Handle("POST /plans/{plan}/checkout", e.page(checkout))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		show(w, http.StatusNotFound, "Page not found", user{}, nil)
	})
	return http.NewCrossOriginProtection().Handler(mux) // no other site can send a form
}

// signIn trusts the form. A real EHR has passwords and sessions that cannot be forged. The cookie is Lax,
// because users return from the platform's page.
func signIn(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "user", Value: r.FormValue("user"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, cmp.Or(users[r.FormValue("user")].Home, "/"), http.StatusSeeOther)
}

func signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "user", Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// signedIn returns the ID of the signed-in user.
func signedIn(r *http.Request) (string, error) {
	cookie, err := r.Cookie("user")
	if err != nil {
		return "", err
	}
	return cookie.Value, nil
}

// page is a page for practitioners. It redirects other users to their first page.
func (e *ehr) page(serve func(http.ResponseWriter, *http.Request, user, *dispensary.Client) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := signedIn(r)
		u := users[id]
		if u.Environment == "" {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		client, err := e.dispensary.Accounts.Client(r.Context(), id)
		if err == nil {
			u.Account, err = e.dispensary.Accounts.Status(r.Context(), id)
		}
		if err == nil {
			err = serve(w, r, u, client)
		}
		switch problem := dispensary.ProblemOf(err).For(); {
		case problem == nil:
		case problem.Reauthorize:
			show(w, http.StatusOK, "Connect the dispensary", u, nil) // not a failure: the page has a button to connect
		default:
			slog.WarnContext(r.Context(), "page", "path", r.URL.Path, "error", err)
			show(w, problem.Status, "Something went wrong", u, problem)
		}
	})
}

//go:embed pages
var files embed.FS

var templates = template.Must(template.ParseFS(files, "pages/*.html"))

// show writes a page.
func show(w http.ResponseWriter, status int, name string, u user, view any) error {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return templates.ExecuteTemplate(w, name, map[string]any{"Title": name, "User": u, "View": view})
}

// planChanged stores the state of a plan in the transaction that marks the event as handled.
func planChanged(ctx context.Context, event events.TreatmentPlanEvent) error {
	return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
		return store(ctx, tx, event.ClinicID, event.Object.Patient.ID, care{event.Object.ID, "Plan", string(event.Object.State)})
	})
}

// orderPlaced stores the current order, because the fields of its event are not documented. It calls the
// platform before the transaction, so other events do not wait. If no practitioner of the clinic is
// connected, the event becomes a dead letter, and the operator replays it later.
func (e *ehr) orderPlaced(ctx context.Context, event events.OrderEvent) error {
	practice, err := e.dispensary.Accounts.ForClinic(ctx, webhook.HandlingFrom(ctx).Key.Environment, event.ClinicID, accounts.ClinicOptions{})
	if errors.Is(err, dispensary.ErrReauthorize) {
		return webhook.Permanent(err)
	}
	if err != nil {
		return err
	}
	order, err := practice.Client.Clinic.Orders.Get(ctx, event.Object.ID)
	if err != nil {
		return err
	}
	return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
		return store(ctx, tx, event.ClinicID, order.PatientID, care{order.ID, "Order", fmt.Sprintf("%s, $%s", order.OrderNumber, order.PaymentTotal)})
	})
}

// store writes the state of a plan or an order of a patient.
func store(ctx context.Context, db sqlinbox.Tx, clinicID, patientID string, c care) error {
	_, err := db.ExecContext(ctx, `INSERT INTO care VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET text = excluded.text`, c.ID, clinicID, patientID, c.Kind, c.Text)
	return err
}

// care is a plan or an order of a patient.
type care struct{ ID, Kind, Text string }

// patients lists the patients of the clinic and the protocols for plans.
func (e *ehr) patients(w http.ResponseWriter, r *http.Request, u user, client *dispensary.Client) error {
	patients, err := client.Clinic.Patients.List().Page(r.Context())
	if err != nil {
		return err
	}
	protocols, err := client.TreatmentPlans.Protocols.ListForPractitioner(u.Account.Owner.ID, treatmentplans.ProtocolListOptions{
		CurrentState: treatmentplans.StateActive, OwnershipType: treatmentplans.OwnershipAny,
	}).Page(r.Context())
	if err != nil {
		return err
	}
	rows, err := e.dispensary.DB.QueryContext(r.Context(), `SELECT patient, id, kind, text FROM care WHERE clinic = ? ORDER BY rowid`, u.Account.Clinic.ID)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	known := map[string][]care{} // by patient
	for rows.Next() {
		var patient string
		var one care
		if err := rows.Scan(&patient, &one.ID, &one.Kind, &one.Text); err != nil {
			return err
		}
		known[patient] = append(known[patient], one)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return show(w, http.StatusOK, "Patients", u, map[string]any{"Patients": patients.Items, "Protocols": protocols.Items, "Care": known, "Made": r.FormValue("made")})
}

// makePlan creates a plan if its products are available, and returns its ID. The platform sends no webhook
// for plans that this application creates.
func (e *ehr) makePlan(r *http.Request, u user, client *dispensary.Client, protocol *treatmentplans.Protocol, choices treatmentplans.PlanChoices) (string, error) {
	plan, err := protocol.NewPlan(choices)
	if err != nil {
		return "", err
	}
	if err := client.TreatmentPlans.CheckAvailable(r.Context(), plan.Recommendations); err != nil {
		return "", err
	}
	made, _, err := client.TreatmentPlans.Ensure(r.Context(), r.PathValue("patient"), plan)
	if err != nil {
		return "", err
	}
	return made.ID, store(r.Context(), e.dispensary.DB, u.Account.Clinic.ID, made.Patient.ID, care{made.ID, "Plan", string(made.State)})
}

// plan shows the form of a plan.
func (e *ehr) plan(w http.ResponseWriter, r *http.Request, u user, client *dispensary.Client) error {
	protocol, err := client.TreatmentPlans.Protocols.Get(r.Context(), r.FormValue("protocol"))
	if err != nil {
		return err
	}
	choices, problem := choicesOf(r, u.Account.Owner.ID, protocol), &dispensary.Problem{Status: http.StatusOK}
	if r.Method == http.MethodPost {
		id, err := e.makePlan(r, u, client, protocol, choices)
		if err == nil {
			http.Redirect(w, r, "/?made="+url.QueryEscape(id)+"#made", http.StatusSeeOther) // the page shows the name, the URL only an ID
			return nil
		}
		if problem = choices.ProblemOf(err).For(fieldsOf(protocol)...); problem.Status != http.StatusUnprocessableEntity {
			return err
		}
	}
	var names []string
	for _, recommendation := range protocol.Recommendations {
		variant, err := client.Catalog.Variants.Get(r.Context(), recommendation.VariantID)
		if err != nil {
			return err
		}
		names = append(names, variant.Product.Name)
	}
	return show(w, problem.Status, "New plan", u, map[string]any{"Protocol": protocol, "Names": names, "Form": r.Form, "ID": choices.Metadata.ID, "Problem": problem, "Inputs": inputs})
}

// inputs are the form fields of each recommendation and of the request.
var inputs = [][2]string{{"omit", "variant_id"}, {"units", "units_to_purchase"}, {"info", "dosage.additional_info"}}

// fieldsOf returns the request fields of the form.
func fieldsOf(protocol *treatmentplans.Protocol) (fields []string) {
	for i := range protocol.Recommendations {
		for _, input := range inputs {
			fields = append(fields, fmt.Sprintf("recommendations[%d].%s", i, input[1]))
		}
	}
	return fields
}

// choicesOf reads the form. Its ID makes a repeated submission create one plan.
func choicesOf(r *http.Request, practitioner string, protocol *treatmentplans.Protocol) treatmentplans.PlanChoices {
	c := treatmentplans.PlanChoices{
		PractitionerID: practitioner, Metadata: clinic.Metadata{ID: cmp.Or(r.FormValue("id"), rand.Text())},
		State: cmp.Or(treatmentplans.State(r.FormValue("state")), treatmentplans.StateDraft),
	}
	for i, line := range protocol.Recommendations {
		at := strconv.Itoa(i)
		units, err := strconv.Atoi(cmp.Or(r.FormValue("units"+at), "0")) // 0 means the number of the protocol
		if err != nil {
			units = -1 // rejected
		}
		choice := treatmentplans.RecommendationChoice{Omit: r.FormValue("omit"+at) != "", UnitsToPurchase: units}
		switch info := r.FormValue("info" + at); {
		case info == "none":
			choice.AdditionalInfo = dispensary.Null[string]()
		case info != "" && info == line.DosagePermutations:
			choice.AdditionalInfo = dispensary.Value(info)
		}
		c.Recommendations = append(c.Recommendations, choice)
	}
	return c
}

// checkout redirects to the platform's page for payment in the office.
func checkout(w http.ResponseWriter, r *http.Request, u user, client *dispensary.Client) error {
	page, err := client.TreatmentPlans.InOfficeCheckout(r.Context(), r.PathValue("plan"))
	if err == nil {
		http.Redirect(w, r, page.URL, http.StatusSeeOther)
	}
	return err
}
