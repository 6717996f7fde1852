package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

// apiCommand is the command with its flags.
type apiCommand struct {
	*program
	target
	fields   []string
	input    string
	paginate bool
	jq       string
	query    *gojq.Code // of jq, nil if there is none
}

func newAPICommand(p *program) *cobra.Command {
	c := apiCommand{program: p}
	command := &cobra.Command{
		Use:   "api METHOD PATH",
		Short: "Call the platform's API, with token, retries and limiter",
		Long: `Api calls an endpoint and prints the body of the response, also of a rejection. A body may
contain data of patients. PATH is encoded as in a URL: write %2F for a slash in an ID.
Without --user it calls with DISPENSARY_ACCESS_TOKEN, and DISPENSARY_CLINIC_KEY beside it, if
that is set. Otherwise it calls as a user who was connected with "dispensary login".
Reads are repeated where that is safe, and the limits of the platform are kept.

A field is "name=text", or "name:=JSON" for what is no text. Fields are the query of a GET, and
anything else's body. Other users of this machine can read the fields of a running command, so
send data of patients with --input - or a file.`,
		Example: `  dispensary api GET /clinic
  dispensary api GET /clinic/patients -f page[size]=50 --paginate --jq '.patients[].id'
  dispensary api POST /clinic/patients --input patient.json
  jq .patient export.json | dispensary api PATCH /clinic/patients/123 --input -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("api wants a method and a path, such as GET /clinic")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return methods, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			return c.run(command.Context(), args[0], args[1])
		},
	}
	flags := command.Flags()
	c.define(flags)
	c.defineUser(flags)
	flags.StringArrayVarP(&c.fields, "field", "f", nil, "send the field `NAME=TEXT`, or NAME:=JSON; may be repeated")
	flags.StringVar(&c.input, "input", "", "send what is in `FILE` as the body; - is stdin")
	flags.BoolVar(&c.paginate, "paginate", false, "read all pages of a list, and print one after the other")
	flags.StringVar(&c.jq, "jq", "", "print what the jq `EXPRESSION` makes of the answer")
	return command
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// run makes the call.
func (c *apiCommand) run(ctx context.Context, method, path string) error {
	request, err := c.request(ctx, strings.ToUpper(method), path)
	if err != nil {
		return err
	}
	if c.query, err = compile(c.jq); err != nil {
		return err
	}
	client, closed, err := c.client(ctx, c.target)
	if err != nil {
		return err
	}
	if request.Method != http.MethodGet {
		err = c.allowWriting(client.Site().Environment)
	}
	if err == nil {
		err = c.pages(ctx, client, request, func(body []byte) error {
			err := c.printBody(ctx, body)
			if errors.Is(err, errNotJSON) && request.Method != http.MethodGet {
				err = maybeApplied{err} // a proxy may have responded
			}
			return err
		})
	}
	return errors.Join(err, failed(c.printRejection(err)), failed(closed()))
}

// compile compiles the expression of --jq, or returns nil if there is no expression.
func compile(expression string) (*gojq.Code, error) {
	if expression == "" {
		return nil, nil
	}
	parsed, err := gojq.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("--jq: %w", err)
	}
	query, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("--jq: %w", err)
	}
	return query, nil
}

// printRejection prints the body of the response that the error of a call contains.
func (c *apiCommand) printRejection(err error) error {
	var call *dispensary.Error
	if !errors.As(err, &call) || len(call.Body()) == 0 {
		return nil
	}
	if body := call.Body(); !json.Valid(body) {
		return c.printText(body)
	}
	return c.printRaw(call.Body())
}

// request makes a request of the arguments.
func (c *apiCommand) request(ctx context.Context, method, path string) (dispensary.RawRequest, error) {
	r := dispensary.RawRequest{Method: method, Query: url.Values{}}
	if !slices.Contains(methods, method) {
		return r, fmt.Errorf("there is no method %q, only %s", method, strings.Join(methods, ", "))
	}
	if c.paginate && method != http.MethodGet {
		return r, errors.New("--paginate: only a GET has pages")
	}
	var query string
	var err error
	r.Path, query, _ = strings.Cut(path, "?")
	if r.Query, err = url.ParseQuery(query); err != nil || !strings.HasPrefix(r.Path, "/") {
		return r, fmt.Errorf("%q is no path, such as /clinic/patients", path)
	}
	body := map[string]any{}
	for _, field := range c.fields {
		name, value, err := parseField(field)
		if err != nil {
			return r, err
		}
		if text, is := value.(string); method == http.MethodGet && is {
			r.Query.Add(name, text)
		} else if method == http.MethodGet {
			r.Query.Add(name, string(value.(json.RawMessage)))
		}
		body[name] = value
	}
	switch {
	case c.input != "" && (len(c.fields) > 0 || method == http.MethodGet):
		return r, errors.New("--input: it is the whole body, of anything but a GET; leave the fields out")
	case c.input != "":
		content, err := c.readFile(ctx, c.input)
		if err != nil {
			return r, fmt.Errorf("--input: %w", err)
		}
		if content, err = textfile.Decode(content); err != nil {
			return r, fmt.Errorf("--input %s: the file %w", c.input, err)
		}
		if !json.Valid(content) {
			return r, fmt.Errorf("--input %s: not JSON", c.input)
		}
		r.Body = json.RawMessage(content)
	case method != http.MethodGet && len(body) > 0:
		r.Body = body
	}
	return r, nil
}

// parseField reads "name=text" or "name:=JSON".
func parseField(field string) (name string, value any, err error) {
	name, text, found := strings.Cut(field, "=")
	raw := strings.HasSuffix(name, ":")
	name = strings.TrimSuffix(name, ":")
	switch {
	case !found || name == "":
		return "", nil, errors.New("--field: not of the form NAME=TEXT or NAME:=JSON")
	case raw && !json.Valid([]byte(text)):
		return "", nil, fmt.Errorf("--field %s: what follows := is not JSON", name)
	case raw:
		return name, json.RawMessage(text), nil
	}
	return name, text, nil
}

// pages calls, once or for all pages of a list.
func (c *apiCommand) pages(ctx context.Context, client *dispensary.Client, r dispensary.RawRequest, print func([]byte) error) error {
	for {
		body, err := client.Do(ctx, r)
		if err != nil {
			return err
		}
		if err := print(body); err != nil || !c.paginate {
			return failed(err)
		}
		var list struct {
			Meta api.Meta `json:"meta"`
		}
		if _, err := jsondecode.Unmarshal(body, &list); err != nil || list.Meta.NextPage == 0 {
			return nil
		}
		if list.Meta.NextPage <= list.Meta.CurrentPage {
			return failed(errors.New("--paginate: the platform names a next page that is none"))
		}
		r.Query.Set("page[number]", strconv.Itoa(list.Meta.NextPage))
	}
}

// errNotJSON is the error of a response that api prints as it is.
var errNotJSON = errors.New("the response is not JSON")

// printText prints a body that is not JSON. If the reader of stdout expects JSON or the results
// of a query, it goes to stderr.
func (c *apiCommand) printText(body []byte) error {
	to, text := c.out, string(body)
	if c.json || c.query != nil {
		to = c.errOut
	}
	if _, is := to.(*terminal.Writer); is {
		text = strings.TrimRight(text, "\r\n") + "\n"
	}
	_, err := io.WriteString(to, text)
	return err
}

// printBody prints the body of an answer: indented for people, on a line with --json.
func (c *apiCommand) printBody(ctx context.Context, body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if !json.Valid(body) {
		return errors.Join(c.printText(body), errNotJSON)
	}
	if c.query == nil {
		return c.printRaw(body)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // a float64 has no integers above 2^53
	var document any
	if err := decoder.Decode(&document); err != nil {
		return errNotJSON
	}
	results := c.query.RunWithContext(ctx, document)
	for {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, is := result.(error); is {
			return fmt.Errorf("--jq: %w", err)
		}
		if text, is := result.(string); is && !c.json {
			if _, err := fmt.Fprintln(c.out, text); err != nil {
				return err
			}
			continue
		}
		encoded, err := gojq.Marshal(result)
		if err == nil {
			err = c.printRaw(encoded)
		}
		if err != nil {
			return err
		}
	}
}

// printRaw prints JSON that is there already.
func (c *apiCommand) printRaw(document []byte) error {
	var made bytes.Buffer
	var err error
	if c.json || !c.terminal {
		err = json.Compact(&made, document)
	} else {
		err = json.Indent(&made, document, "", "  ")
	}
	if err != nil {
		return errNotJSON
	}
	_, err = fmt.Fprintf(c.out, "%s\n", made.Bytes())
	return err
}
