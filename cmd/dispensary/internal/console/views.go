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
		Region  string // as the flag --region names it
		Consent string // the address an application sends its users to
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
	v := view{Filter: filterOf(query), Users: h.fake.Users(), Now: h.fake.Clock.Now()}
	v.Credentials = filtered(&v.Filter, h.fake.Tokens.Credentials(), func(k model.Credential) listed {
		return listed{ID: k.Value, Kind: k.Kind, State: or(k.Rejection, "good"), Failed: k.Rejection != "", Text: func() string {
			return strings.Join([]string{k.Value, k.TokenID, k.User.Name, k.User.Email, strings.Join(k.Scopes, " ")}, "\n")
		}}
	})
	return v
}

// worldView is one of the platform's tables, and what it belongs to.
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
	Names         map[string]string // of the patients that the table names
}

// worldList is one of the tables in the choice of them.
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

// orders are all of them where a text is looked for, else no more than the newest, down to
// the page that is shown: an order is large, and there are many.
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
	v := view{Now: h.fake.Clock.Now(), Frozen: h.fake.Clock.Frozen()}
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

// soonest returns the first rows that have a time, as many as a page shows, by their times and
// otherwise in their order. There may be many, of which few come among the first.
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

// openPoint is a point that the API leaves open, with the variant in force.
type openPoint struct {
	behavior.Choice
	Chosen, Default string
}

// Changed reports whether the platform does not use the default.
func (p openPoint) Changed() bool { return p.Chosen != p.Default }

// behaviors lists the changed points first.
func (h *Handler) behaviors(url.Values) any {
	inForce := h.fake.Behaviors()
	var changed, rows []openPoint
	for i, choice := range behavior.Choices() { // both are sorted by name
		p := openPoint{choice, inForce[i].Name(), choice.Variants[0].Name()}
		if p.Changed() {
			changed = append(changed, p)
		} else {
			rows = append(rows, p)
		}
	}
	return struct {
		Changed int
		Rows    []openPoint
	}{len(changed), append(changed, rows...)}
}
