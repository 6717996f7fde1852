package dispensarytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// driver does to a platform what the model predicts, and compares.
type driver struct {
	events    []string // ids of all events there ever were
	fake      *Server
	platform  *Server
	http      *http.Client
	walkModel *walkModel
	ids       map[ref]string
	did       []deed // every step so far, with what came of it
	met       map[string]int
}

// deed is a step that was taken. It is put into words only for a person to read.
type deed struct {
	request request
	status  int
}

func (d deed) String() string { return fmt.Sprintf("%s → %d", d.request, d.status) }

// newDriver starts a platform and a model of what it starts with.
func newDriver(l laws) *driver {
	scopes := []string{"catalog:read", "clinic:read", "clinic:write", "patients:read", "patients:write", "patients:order_history"}
	fake, err := Start(WithInMemory(), WithClock(frozen()), WithJournalLimit(1),
		WithBehavior(l.setting), WithScopes(scopes...))
	if err != nil {
		panic(err)
	}
	d := &driver{fake: fake, platform: fake, http: fake.HTTPClient(), ids: make(map[ref]string), met: make(map[string]int)}
	d.walkModel = &walkModel{laws: l, now: fake.Clock().Now(), appScopes: scopes}
	app := fake.Application()
	d.ids[ref{"client_id", 0}], d.ids[ref{"client_secret", 0}], d.ids[ref{"redirect_uri", 0}] = app.ClientID, app.ClientSecret, app.RedirectURI
	d.observe()
	return d
}

// observe fills the model with the default world.
func (d *driver) observe() {
	m := d.walkModel
	for _, p := range d.platform.Patients.All() {
		d.know(ref{"patient", len(m.patients)}, p.ID)
		m.patients = append(m.patients, &modelPatient{email: p.Email, metadata: p.MetadataID, discount: p.Discount})
	}
	for _, u := range d.fake.Users() {
		d.know(ref{"user", len(m.users)}, u.ID)
		m.users = append(m.users, &modelUser{staff: u.Type == model.UserStaff, email: u.Email})
	}
	for _, p := range d.platform.Plans.All() {
		plan := &modelPlan{state: p.State, outside: p.Outside, created: p.CreatedAt, updated: p.UpdatedAt, told: p.AvailableAt}
		plan.patient = slices.IndexFunc(d.platform.Patients.All(), func(row model.Patient) bool { return row.ID == p.PatientID })
		for _, r := range p.Recommendations {
			plan.units = append(plan.units, r.UnitsToPurchase)
		}
		d.know(ref{"plan", len(m.plans)}, p.ID)
		m.plans = append(m.plans, plan)
	}
	for i, o := range d.platform.Orders.All() {
		d.know(ref{"order", i}, o.ID)
		m.orders = append(m.orders, &modelOrder{patient: i, plan: i})
	}
	for i, p := range d.platform.Products.All() {
		d.know(ref{"product", i}, p.ID)
		d.know(ref{"variant", i}, p.VariantIDs[0])
	}
	d.know(ref{"type", 0}, d.platform.Clinics.Practitioners()[0].TypeID)
}

func (d *driver) know(r ref, id string) { d.ids[r] = id }

// id is what the platform calls an object.
func (d *driver) id(r ref) string {
	if id, known := d.ids[r]; known {
		return id
	}
	if r.kind == "event" && r.n >= 0 && r.n < len(d.events) {
		return d.events[r.n] // some come from calls, whose answers do not tell
	}
	return "no-such-" + r.kind
}

// firstVariant is the variant on a plan's first line.
func (d *driver) firstVariant(plan int) string {
	p, _ := d.platform.Plans.Get(d.id(ref{"plan", plan}))
	if len(p.Recommendations) == 0 {
		return ""
	}
	return p.Recommendations[0].VariantID
}

// take makes one step, and returns how platform and model disagree, or "".
func (d *driver) take(s step) string {
	p := moveTable[s.move].predict(d.walkModel, s)
	status, body, err := d.do(p.request)
	d.met[s.move+" "+strconv.Itoa(status)]++
	d.did = append(d.did, deed{p.request, status})
	if err != nil {
		return err.Error()
	}
	if status != p.status {
		body = bytes.TrimSpace(body)
		return fmt.Sprintf("the platform answered %d, the walkModel says %d\n      %s", status, p.status, body[:min(len(body), 160)])
	}
	w := partsOf(d.fake).store.World
	for n := len(d.events); n < int(w.Numbers["event"]); n++ {
		d.events = append(d.events, w.ID("event", uint64(n+1)))
	}
	if made := len(d.events); made != len(d.walkModel.events) {
		return fmt.Sprintf("there are %d events, the walkModel says %d", made, len(d.walkModel.events))
	}
	if !json.Valid(body) {
		return fmt.Sprintf("the answer is not JSON: %q", body)
	}
	if len(p.binds)+len(p.fields) == 0 {
		return ""
	}
	return d.compare(p, body)
}

// compare learns ids from an answer, and holds it against what the model says.
func (d *driver) compare(p prediction, body []byte) string {
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return err.Error()
	}
	for path, r := range p.binds {
		id, _ := at(tree, path).(string)
		if id == "" {
			return fmt.Sprintf("the answer names no %s", path)
		}
		d.know(r, id)
	}
	for _, path := range slices.Sorted(maps.Keys(p.fields)) {
		want, got := d.concrete(p.fields[path]), at(tree, path)
		if fmt.Sprint(want) != fmt.Sprint(got) {
			return fmt.Sprintf("%s is %v, the walkModel says %v", path, got, want)
		}
	}
	return ""
}

// do makes the call, or the act. Errors of actions become the status that the
// API would have.
func (d *driver) do(r request) (int, []byte, error) {
	if r.act == nil {
		return d.call(r)
	}
	row, err := r.act(d)
	body, broken := json.Marshal(row)
	switch {
	case broken != nil:
		return 0, nil, broken
	case errors.Is(err, model.ErrNotFound):
		return http.StatusNotFound, body, nil
	case err != nil:
		return http.StatusUnprocessableEntity, body, nil
	}
	return http.StatusOK, body, nil
}

func (d *driver) call(r request) (int, []byte, error) {
	var address strings.Builder
	address.WriteString(d.fake.BaseURL())
	for _, part := range r.path {
		fmt.Fprint(&address, d.concrete(part))
	}
	var body io.Reader
	if r.body != nil {
		encoded, err := json.Marshal(d.concrete(r.body))
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequest(r.method, address.String()+r.query, body)
	if err != nil {
		return 0, nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !r.open {
		req.Header.Set("Authorization", "Bearer "+d.id(ref{"token", r.token}))
	}
	if r.key != noKey {
		req.Header.Set("X-SVC-Clinic-Key", [...]string{"", d.fake.ClinicKey(), "wrong"}[r.key])
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// concrete puts ids in the place of refs.
func (d *driver) concrete(v any) any {
	switch v := v.(type) {
	case ref:
		return d.id(v)
	case map[string]any:
		concrete := make(map[string]any, len(v))
		for key, value := range v {
			concrete[key] = d.concrete(value)
		}
		return concrete
	case []any:
		concrete := make([]any, 0, len(v))
		for _, value := range v {
			concrete = append(concrete, d.concrete(value))
		}
		return concrete
	}
	return v
}

// at follows a path of keys and indexes; "#" is a list's length.
func at(tree any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			switch {
			case key == "#":
				return len(node)
			case err != nil || i >= len(node):
				return nil
			}
			tree = node[i]
		default:
			return nil
		}
	}
	return tree
}
