package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// triggerCommand is the command with its flags.
type triggerCommand struct {
	*program
	control, patient, plan, product string
	fields                          []string
}

// action is a request to the control API that creates an event. In its path, {patient}, {plan},
// {product} and {key} are placeholders for ids: those of the flags, or the latest.
type action struct {
	method, path string
	fill         func(body, plan jsonObject) // sets the fields that make the request a change; may be nil
}

type jsonObject = map[string]any

// actions contains the action for each event type.
var actions = map[events.Type]action{
	events.TypePatientCreated:       {"POST", "/patients", nil},
	events.TypePatientUpdated:       {"PATCH", "/patients/{patient}", func(body, _ jsonObject) { body["last_name"] = changedAt() }},
	events.TypeOrderPlaced:          {"POST", "/patients/{patient}/orders", nil},
	events.TypeTreatmentPlanCreated: {"POST", "/patients/{patient}/plans", nil},
	events.TypeTreatmentPlanUpdated: {"PATCH", "/plans/{plan}", func(body, _ jsonObject) {
		body["personal_message"] = changedAt()
	}},
	events.TypeTreatmentPlanRecommendationUpdated: {"PATCH", "/plans/{plan}/recommendation", func(body, plan jsonObject) {
		if lines, _ := plan["recommendations"].([]any); len(lines) > 0 {
			line, _ := lines[0].(jsonObject)
			units, _ := line["units_to_purchase"].(float64)
			body["variant_id"], body["units_to_purchase"] = line["variant_id"], units+1
		}
	}},
	events.TypeProductCreated: {"POST", "/products", func(body, _ jsonObject) { body["name"] = changedAt() }},
	events.TypeProductUpdated: {"PATCH", "/products/{product}", func(body, _ jsonObject) { body["name"] = changedAt() }},
	events.TypeProductDescriptionUpdated: {"PUT", "/products/{product}/description", func(body, _ jsonObject) {
		body["description_html"] = "<p>" + changedAt() + "</p>"
	}},
	events.TypeClinicKeyRevoked:   {"POST", "/clinic_keys/{key}/revoke", nil},
	events.TypeClinicKeyActivated: {"POST", "/clinic_keys/{key}/activate", nil},
}

// changedAt returns a text that differs in each call.
func changedAt() string {
	return "Changed at " + time.Now().UTC().Format(time.RFC3339Nano)
}

func newTriggerCommand(p *program) *cobra.Command {
	c := triggerCommand{program: p}
	types := slices.Sorted(maps.Keys(actions))
	var names []string
	for _, t := range types {
		names = append(names, string(t))
	}
	command := &cobra.Command{
		Use:   "trigger TYPE",
		Short: "Create an event on a fake platform",
		Long: `Trigger performs the action of a person that creates an event, such as an order, on a fake
platform. It uses the control API of "dispensary fake" or "dispensary dev", with the URL in
--control or DISPENSARY_CONTROL_URL. It acts on the patient, plan or product of a flag, or on the
latest one. If the platform sends no webhook of the event, trigger prints the reason.

A sandbox has no control API, and calls of its API create no events: a person must act on the
platform's pages. Only clinic_key.activated comes from a call, the first with a clinic's key.

Exit codes: 0 if the event is created. 1 if the fake platform rejects the action, or the outcome is
unknown. 2 if it sent no request.

Types: ` + strings.Join(names[:5], ", ") + ",\n" + strings.Join(names[5:8], ", ") + ",\n" + strings.Join(names[8:], ", ") + ".",
		Example: `  dispensary trigger patient.created -f first_name=Ada -f email=ada@example.com
  dispensary trigger order.placed --patient 123 --control http://127.0.0.1:9001/control
  dispensary trigger treatment_plan.updated --json`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("trigger needs one event type, such as order.placed")
			}
			if _, known := actions[events.Type(args[0])]; !known {
				return errors.New(closestmatch.Unknown("event type", args[0], names))
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			return c.run(command.Context(), events.Type(args[0]))
		},
	}
	flags := command.Flags()
	flags.StringVar(&c.control, "control", "", "`URL` of the control API (default: DISPENSARY_CONTROL_URL)")
	flags.StringVar(&c.patient, "patient", "", "`ID` of the patient (default: the latest)")
	flags.StringVar(&c.plan, "plan", "", "`ID` of the treatment plan (default: the latest active plan)")
	flags.StringVar(&c.product, "product", "", "`ID` of the product (default: the latest)")
	flags.StringArrayVarP(&c.fields, "field", "f", nil, "set the field `NAME=TEXT`, or NAME:=JSON, of the action; repeatable")
	return command
}

// triggered is the JSON document of trigger.
type triggered struct {
	Type     events.Type `json:"type"`
	EventID  string      `json:"event_id,omitempty"`
	ClinicID string      `json:"clinic_id,omitempty"`
	ObjectID string      `json:"object_id,omitempty"`
}

// run creates the event.
func (c *triggerCommand) run(ctx context.Context, kind events.Type) error {
	body := jsonObject{}
	for _, field := range c.fields {
		name, value, err := parseField(field)
		if err != nil {
			return err
		}
		body[name] = value
	}
	if c.control == "" {
		c.control = c.lookup(controlVariable)
	}
	if c.control == "" {
		return fmt.Errorf(`--control or %s is required: use the URL that "dispensary fake" prints`, controlVariable)
	}
	address, err := url.Parse(c.control)
	if err != nil || address.Scheme != "http" || address.Host == "" {
		return errors.New("--control must be a URL such as http://127.0.0.1:9001/control")
	}
	control := controlAPI(strings.TrimSuffix(c.control, "/"))
	made, err := control.act(ctx, c, actions[kind], body)
	if err != nil {
		return err
	}
	if made.Type != kind {
		return fmt.Errorf("the action created no event %s: see the events page of the console", kind)
	}
	err = c.print(made, []string{"TYPE", "EVENT", "CLINIC", "OBJECT"}, [][]string{{string(made.Type), made.EventID, made.ClinicID, made.ObjectID}})
	if err != nil {
		return err
	}
	why, err := control.skipped(ctx, made.EventID)
	if why != "" {
		_, _ = fmt.Fprintf(c.errOut, "The platform sends no webhook: %s. \"dispensary listen\" forwards the event nevertheless.\n", why)
	}
	return err
}

// controlAPI is the URL of a control API.
type controlAPI string

// act performs an action and returns the created event.
func (a controlAPI) act(ctx context.Context, c *triggerCommand, does action, given jsonObject) (triggered, error) {
	path, plan, err := a.resolve(ctx, c, does.path)
	if err != nil {
		return triggered{}, err
	}
	body := jsonObject{}
	if does.fill != nil {
		does.fill(body, plan)
	}
	if c.plan != "" && strings.HasSuffix(does.path, "/orders") {
		body["plan_ids"] = []string{c.plan}
	}
	maps.Copy(body, given)
	var response struct {
		Event struct {
			ID       string      `json:"id"`
			Type     events.Type `json:"type"`
			ClinicID string      `json:"clinic_id"`
			ObjectID string      `json:"object_id"`
		} `json:"event"`
	}
	err = a.call(ctx, does.method, path, body, &response)
	e := response.Event
	return triggered{e.Type, e.ID, e.ClinicID, e.ObjectID}, err
}

// skipped returns the reason why the platform sends no webhook of an event, or "" if it sends one.
func (a controlAPI) skipped(ctx context.Context, event string) (why string, err error) {
	var page struct {
		Skips []struct {
			Reason string `json:"reason"`
		} `json:"skips"`
	}
	err = a.call(ctx, http.MethodGet, "/skips?event_id="+url.QueryEscape(event), nil, &page)
	if len(page.Skips) > 0 {
		why = page.Skips[0].Reason
	}
	return why, err
}

// resolve replaces the placeholders in a path by ids. It returns the last object that it has read,
// which is the plan if the path contains {plan}.
func (a controlAPI) resolve(ctx context.Context, c *triggerCommand, path string) (_ string, plan jsonObject, err error) {
	for _, of := range []struct{ name, id, list, query string }{
		{"patient", c.patient, "patients", ""}, {"plan", c.plan, "plans", "state=active&"}, {"product", c.product, "products", ""},
	} {
		placeholder := "{" + of.name + "}"
		if !strings.Contains(path, placeholder) {
			continue
		}
		query := of.query + "order_by=DESC&limit=1"
		if of.id != "" {
			query = "id=" + url.QueryEscape(of.id)
		}
		var page map[string]json.RawMessage
		var rows []jsonObject
		if err = a.call(ctx, http.MethodGet, "/"+of.list+"?"+query, nil, &page); err == nil {
			err = json.Unmarshal(page[of.list], &rows)
		}
		switch {
		case err != nil:
			return "", nil, err
		case len(rows) == 0 && of.id != "":
			return "", nil, fmt.Errorf("--%s: the platform has no %s %s", of.name, of.name, of.id)
		case len(rows) == 0:
			return "", nil, fmt.Errorf("the platform has no %s for this event: create one first", of.name)
		}
		id, _ := rows[0]["id"].(string)
		path, plan = strings.ReplaceAll(path, placeholder, url.PathEscape(id)), rows[0]
	}
	if strings.Contains(path, "{key}") {
		var keys struct {
			Keys []string `json:"clinic_keys"`
		}
		if err := a.call(ctx, http.MethodGet, "/clinic_keys", nil, &keys); err != nil {
			return "", nil, err
		}
		if len(keys.Keys) == 0 {
			return "", nil, errors.New("the platform has no clinic key")
		}
		path = strings.ReplaceAll(path, "{key}", url.PathEscape(keys.Keys[0]))
	}
	return path, plan, nil
}

// call calls the control API. If a write gets no usable response, the error is a [maybeApplied],
// unless the request never had a connection.
func (a controlAPI) call(ctx context.Context, method, path string, body, into any) error {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	err := a.exchange(ctx, method, path, body, into)
	if err == nil || errors.Is(err, errRejectedAction) || method == http.MethodGet || !connected.Load() {
		return err
	}
	return maybeApplied{err}
}

var errRejectedAction = errors.New("the fake platform rejects the action")

// controlClient calls control APIs. It uses no proxy, because they are on this machine.
var controlClient = http.Client{Transport: &http.Transport{}}

// exchange sends a request to the control API and decodes the response.
func (a controlAPI) exchange(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, string(a)+path, &sent)
	if err != nil {
		return errors.New("--control is not a valid URL")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := controlClient.Do(request)
	if err != nil {
		return fmt.Errorf("--control: no control API responds: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	const most = 1 << 20 // more than the largest page of rows, 96 KiB
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return fmt.Errorf("--control: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		if json.Unmarshal(text, into) != nil {
			return errors.New("--control is not a control API: the response is not JSON")
		}
		return nil
	}
	var rejection struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &rejection) != nil || rejection.Error == "" {
		return fmt.Errorf("--control is not a control API: it responds with %s", response.Status)
	}
	return fmt.Errorf("%w: %s", errRejectedAction, rejection.Error)
}
