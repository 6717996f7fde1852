package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (h *Handler) settings(url.Values) any {
	type view struct {
		control.Settings
		Scopes  []string
		Region  string // value of the flag --region
		Consent string // URL of the authorization page
	}
	region, _, _ := strings.Cut(h.fake.Site().Environment.String(), "/")
	v := view{Settings: h.api.Settings(), Scopes: h.fake.Application().Scopes, Region: strings.ToUpper(region)}
	query := url.Values{"client_id": {v.ClientID}, "redirect_uri": {v.RedirectURI}, "response_type": {"code"}}
	v.Consent = v.AuthURL + "/oauth/authorize?" + query.Encode()
	return v
}

func (h *Handler) tokens(query url.Values) any {
	type view struct {
		Filter      filter
		Credentials []model.Credential
		Users       []model.User
		Now         time.Time
	}
	v := view{Filter: filterOf(query), Users: h.fake.Users(), Now: h.fake.Clock.Now().UTC()}
	v.Credentials = filtered(&v.Filter, h.fake.Tokens.Credentials(), func(k model.Credential) listed {
		return listed{ID: k.Value, Kind: k.Kind, State: or(k.Rejection, "valid"), Failed: k.Rejection != "", Text: func() string {
			return strings.Join([]string{k.Value, k.TokenID, k.User.Name, k.User.Email, strings.Join(k.Scopes, " ")}, "\n")
		}}
	})
	return v
}

// worldView is one table of the platform's data.
type worldView struct {
	Filter        filter
	Lists         []worldList
	Patients      []model.Patient
	Plans         []model.Plan
	Orders        []model.Order
	Practitioners []model.Practitioner
	Products      []model.Product
	Clinics       []model.Clinic
	Keys          []string
	Origin        string
	Currency      string
	Names         map[string]string // names of the patients in the table
}

// worldList is a table in the navigation of the page.
type worldList struct {
	Name  string
	Count int
}

func (h *Handler) world(query url.Values) any {
	p := h.fake
	v := worldView{
		Filter: filterOf(query), Clinics: p.Clinics.All(), Keys: p.ClinicKeys(),
		Origin: strings.TrimSuffix(p.Site().BaseURL, "/api"), Currency: "USD", Names: make(map[string]string),
	}
	if p.Site().Environment == api.CanadaSandbox {
		v.Currency = "CAD"
	}
	totals, practitioners := p.Overview(0).Totals, p.Practitioners.All()
	v.Lists = []worldList{{"patients", totals.Patients}, {"plans", totals.Plans}, {"orders", totals.Orders}, {"practitioners", len(practitioners)}, {"products", totals.Products}}
	name := func(id string) string {
		if _, known := v.Names[id]; !known && id != "" {
			patient, _ := p.Patients.Get(id)
			v.Names[id] = nameOf(patient)
		}
		return v.Names[id]
	}
	switch v.Filter.Kind {
	case "plans":
		v.Plans = filtered(&v.Filter, p.Plans.All(), func(r model.Plan) listed {
			return listed{ID: r.ID, State: r.State, Text: func() string { return r.ID + "\n" + name(r.PatientID) }}
		})
	case "orders":
		v.Orders = filtered(&v.Filter, h.orders(v.Filter, totals.Orders), func(r model.Order) listed {
			return listed{ID: r.ID, Text: func() string { return r.ID + "\n" + r.Number + "\n" + name(r.PatientID) }}
		})
		if v.Filter.Text == "" {
			v.Filter.All, v.Filter.Found = totals.Orders, totals.Orders
		}
	case "practitioners":
		v.Practitioners = filtered(&v.Filter, practitioners, func(r model.Practitioner) listed {
			return listed{ID: r.ID, Text: func() string { return r.ID + "\n" + r.FirstName + " " + r.LastName + "\n" + r.Email }}
		})
	case "products":
		v.Products = filtered(&v.Filter, p.Products.All(), func(r model.Product) listed {
			return listed{ID: r.ID, Text: func() string { return r.ID + "\n" + r.Name + "\n" + strings.Join(r.VariantIDs, " ") }}
		})
	default:
		v.Filter.Kind = "patients"
		v.Patients = filtered(&v.Filter, p.Patients.All(), func(r model.Patient) listed {
			return listed{ID: r.ID, Text: func() string { return r.ID + "\n" + nameOf(r) + "\n" + r.Email + "\n" + r.MetadataID }}
		})
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

// orders returns all orders if the filter has a text. Otherwise it returns only the newest
// orders up to the shown page, because orders are large and numerous.
func (h *Handler) orders(f filter, total int) []model.Order {
	if f.Text != "" {
		return h.fake.Orders.All()
	}
	rows := h.fake.Overview(perPage * min(f.Page, total/perPage+1)).Orders
	slices.Reverse(rows)
	return rows
}

func (h *Handler) clock(url.Values) any {
	type view struct {
		Now    time.Time
		Frozen bool
		Next   time.Time
		Due    []model.Delivery
		Ending []model.Credential
	}
	v := view{Now: h.fake.Clock.Now().UTC(), Frozen: h.fake.Clock.Frozen()}
	v.Next = h.next()
	v.Due = soonest(h.fake.Webhooks.Deliveries(), func(d *model.Delivery) time.Time { return d.NextAttemptAt })
	v.Ending = soonest(h.fake.Tokens.Credentials(), func(k *model.Credential) time.Time {
		if k.Rejection != "" {
			return time.Time{}
		}
		return k.ExpiresAt
	})
	return v
}

// soonest returns the first perPage rows by time, and by position if times are equal. It skips
// rows without a time. It inserts each row into a short sorted list, because few rows are
// among the first.
func soonest[T any](rows []T, at func(*T) time.Time) (first []T) {
	for i := range rows {
		row := &rows[i]
		when := at(row)
		if when.IsZero() || len(first) == perPage && !when.Before(at(&first[perPage-1])) {
			continue
		}
		place, _ := slices.BinarySearchFunc(first, when, func(r T, t time.Time) int {
			if at(&r).After(t) {
				return 1
			}
			return -1
		})
		first = slices.Insert(first[:min(len(first), perPage-1)], place, *row)
	}
	return first
}

func (h *Handler) faults(url.Values) any { return h.fake.Faults() }

// behaviorRow is an undocumented behavior of the API with the variant in use.
type behaviorRow struct {
	behavior.Choice
	Chosen, Default string
}

// Changed reports whether the platform uses a variant other than the default.
func (p behaviorRow) Changed() bool { return p.Chosen != p.Default }

// behaviors returns the behaviors, changed ones first.
func (h *Handler) behaviors(url.Values) any {
	inForce := h.fake.Behaviors()
	var changed, rows []behaviorRow
	for i, choice := range behavior.Choices() { // both slices are sorted by name
		p := behaviorRow{choice, inForce[i].Name(), choice.Variants[0].Name()}
		if p.Changed() {
			changed = append(changed, p)
		} else {
			rows = append(rows, p)
		}
	}
	return struct {
		Changed int
		Rows    []behaviorRow
	}{len(changed), append(changed, rows...)}
}
