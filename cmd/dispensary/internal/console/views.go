package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (h *Handler) settings(url.Values) any {
	type view struct {
		control.Settings
		Scopes  []string
		Region  model.Region
		Consent string // the address an application sends its users to
	}
	v := view{Settings: h.api.Settings(), Scopes: h.fake.Application().Scopes, Region: h.fake.Region()}
	query := url.Values{"client_id": {v.ClientID}, "redirect_uri": {v.RedirectURI}, "response_type": {"code"}}
	v.Consent = v.AuthURL + "/oauth/authorize?" + query.Encode()
	return v
}

func (h *Handler) tokens(url.Values) any {
	type view struct {
		Credentials []model.Credential
		Users       []model.User
		Now         time.Time
	}
	return view{newest(h.fake.Tokens.Credentials()), h.fake.Users(), h.fake.Clock().Now()}
}

func (h *Handler) world(url.Values) any {
	type view struct {
		model.Overview
		Clinics       []model.Clinic
		Practitioners []model.Practitioner
		Keys          []string
		Origin        string
		Currency      string
		Latest        int               // rows of each table at most
		Names         map[string]string // of the patients that the tables name
	}
	p := h.fake
	v := view{
		Overview: p.Overview(latest), Clinics: p.Clinics.All(), Practitioners: newest(p.Clinics.Practitioners()), Keys: h.fake.ClinicKeys(),
		Origin: strings.TrimSuffix(h.fake.BaseURL(), "/api"), Latest: latest, Currency: h.fake.Region().Currency(), Names: make(map[string]string),
	}
	name := func(id string) {
		if patient, known := p.Patients.Get(id); known {
			v.Names[id] = nameOf(patient)
		}
	}
	for _, row := range v.Patients {
		name(row.ID)
	}
	for _, row := range v.Plans {
		name(row.PatientID)
	}
	for _, row := range v.Orders {
		name(row.PatientID)
	}
	return v
}

func (h *Handler) events(query url.Values) any {
	type row struct {
		model.Event
		Skipped string
	}
	skipped := map[string]string{}
	for _, s := range h.fake.Webhooks.Skipped() {
		skipped[s.EventID] = s.Reason
	}
	type view struct {
		Filter filter
		Events []row
	}
	v := view{Filter: filterOf(query)}
	for _, e := range filtered(&v.Filter, h.fake.Events(), func(e model.Event) (state, text string) {
		return e.Type, strings.Join([]string{e.Type, e.ID, skipped[e.ID], string(e.Data)}, "\n")
	}) {
		v.Events = append(v.Events, row{e, skipped[e.ID]})
	}
	return v
}

func (h *Handler) requests(query url.Values) any {
	type row struct {
		model.Request
		Curl string
	}
	type view struct {
		Filter   filter
		Requests []row
	}
	v := view{Filter: filterOf(query)}
	for _, r := range filtered(&v.Filter, h.fake.Journal().Requests(), func(r model.Request) (state, text string) {
		if state = "answered"; r.Status >= 400 {
			state = "refused"
		}
		return state, strings.Join([]string{r.Operation, r.Method + " " + r.Path + "?" + r.Query, strconv.Itoa(r.Status), r.ID, r.TokenID}, "\n")
	}) {
		v.Requests = append(v.Requests, row{r, h.curl(r)})
	}
	return v
}

// curl repeats a request. The journal keeps neither tokens nor bodies.
func (h *Handler) curl(r model.Request) string {
	address := strings.TrimSuffix(h.fake.BaseURL(), "/api") + r.Path
	if r.Query != "" {
		address += "?" + r.Query
	}
	command := "curl"
	if r.Method != "GET" {
		command += " -X " + r.Method + " --json @body.json"
	}
	if r.TokenID != "" {
		command += ` -H "Authorization: Bearer $TOKEN"`
	}
	return command + " " + quoted(address)
}

func (h *Handler) clock(url.Values) any {
	type view struct {
		Now    time.Time
		Frozen bool
		Next   time.Time
		Due    []model.Delivery
		Ending []model.Credential
	}
	v := view{Now: h.fake.Clock().Now(), Frozen: h.fake.Clock().Frozen()}
	v.Next = h.next()
	for _, d := range h.fake.Webhooks.Deliveries() {
		if !d.NextAttemptAt.IsZero() {
			v.Due = append(v.Due, d)
		}
	}
	slices.SortStableFunc(v.Due, func(a, b model.Delivery) int { return a.NextAttemptAt.Compare(b.NextAttemptAt) })
	v.Due = v.Due[:min(len(v.Due), latest)]
	for _, k := range h.fake.Tokens.Credentials() {
		if k.Refusal == "" && !k.ExpiresAt.IsZero() {
			v.Ending = append(v.Ending, k)
		}
	}
	slices.SortStableFunc(v.Ending, func(a, b model.Credential) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	v.Ending = v.Ending[:min(len(v.Ending), latest)]
	return v
}

func (h *Handler) faults(url.Values) any { return h.fake.Faults() }

func (h *Handler) behaviors(url.Values) any {
	type row struct {
		dispensarytest.BehaviorChoice
		Chosen string
	}
	inForce := h.fake.Behaviors()
	var rows []row
	for i, choice := range dispensarytest.BehaviorChoices() { // both are sorted by name
		rows = append(rows, row{choice, inForce[i].Variant()})
	}
	return rows
}
