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
	"strings"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// apiCommand is the command with its flags.
type apiCommand struct {
	*program
	target
	fields   []string
	input    string
	paginate bool
	jq       string
	query    *gojq.Code // compiled from jq, or nil
}

func newAPICommand(p *program) *cobra.Command {
	c := apiCommand{program: p}
	command := &cobra.Command{
		Use:   "api METHOD PATH",
		Short: "Call the API with token, retries and rate limiting",
		Long: `Api sends a request to an endpoint and prints the body of the response, even if the platform
rejects the call. The body may contain patient data. Encode PATH as in a URL: write %2F for a
slash in an ID. Api retries reads if this is safe, and stays within the platform's rate limits.

If DISPENSARY_ACCESS_TOKEN is set and --user is not, api calls with this token, and with the
clinic key in DISPENSARY_CLINIC_KEY or the configuration, if there is one. Otherwise it calls as a
user connected with "dispensary login". In a production environment, any method except GET needs
--production.

A field is NAME=TEXT, or NAME:=JSON for any other type. Fields are the query of a GET, and the
body of any other method. Other users of this machine can see the fields of a running command:
send patient data in a file with --input, or on stdin with --input -.

Exit codes: 0 on success. 1 if the platform rejects the call, a list of --paginate is incomplete,
or the response cannot be printed. 2 if it sent no request.`,
		Example: `  dispensary api GET /clinic
  dispensary api GET /clinic/patients -f page[size]=50 --paginate --jq '.patients[].id'
  dispensary api POST /clinic/patients --input patient.json
  jq .patient export.json | dispensary api PATCH /clinic/patients/123 --input -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("api needs a method and a path, such as GET /clinic")
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
	flags.StringArrayVarP(&c.fields, "field", "f", nil, "send the field `NAME=TEXT`, or NAME:=JSON; repeatable")
	flags.StringVar(&c.input, "input", "", "send the contents of `FILE` as the body; - is stdin")
	flags.BoolVar(&c.paginate, "paginate", false, "read all pages of a list, and print one body per page")
	flags.StringVar(&c.jq, "jq", "", "print the results of the jq `EXPRESSION` for the response body")
	return command
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// run calls the endpoint and prints the response.
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
				err = maybeApplied{err} // a proxy may have responded after a timeout
			}
			return err
		})
	}
	return errors.Join(err, failed(c.printRejection(err)), failed(closed()))
}

// compile compiles the expression of --jq. It returns nil if the expression is empty.
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

// printRejection prints the response body in the error of a call, if there is one.
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

// request returns the request for the arguments and flags.
func (c *apiCommand) request(ctx context.Context, method, path string) (dispensary.RawRequest, error) {
	r := dispensary.RawRequest{Method: method, Query: url.Values{}}
	if !slices.Contains(methods, method) {
		return r, fmt.Errorf("unknown method %q: use one of %s", method, strings.Join(methods, ", "))
	}
	if c.paginate && method != http.MethodGet {
		return r, errors.New("--paginate works only with GET")
	}
	var query string
	var err error
	r.Path, query, _ = strings.Cut(path, "?")
	if r.Query, err = url.ParseQuery(query); err != nil || !strings.HasPrefix(r.Path, "/") {
		return r, fmt.Errorf("%q is not a path such as /clinic/patients", path)
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
		return r, errors.New("--input replaces the whole body: omit --field, and use a method other than GET")
	case c.input != "":
		content, err := c.readFile(ctx, c.input)
		if err != nil {
			return r, fmt.Errorf("--input: %w", err)
		}
		if content, err = environ.DecodeText(content); err != nil {
			return r, fmt.Errorf("--input %s: the file %w", c.input, err)
		}
		if !json.Valid(content) {
			return r, fmt.Errorf("--input %s is not JSON", c.input)
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
		return "", nil, errors.New("--field must be NAME=TEXT or NAME:=JSON")
	case raw && !json.Valid([]byte(text)):
		return "", nil, fmt.Errorf("--field %s: the value after := is not JSON", name)
	case raw:
		return name, json.RawMessage(text), nil
	}
	return name, text, nil
}

// pages sends the request and prints the body. With --paginate it does so for all pages.
func (c *apiCommand) pages(ctx context.Context, client *dispensary.Client, r dispensary.RawRequest, print func([]byte) error) error {
	if !c.paginate {
		body, err := client.Do(ctx, r)
		if err != nil {
			return err
		}
		return failed(print(body))
	}
	for body, err := range client.DoPages(ctx, r) {
		if err != nil {
			return err
		}
		if err := print(body); err != nil {
			return failed(err)
		}
	}
	return nil
}

// errNotJSON is the error of a response that is printed unchanged.
var errNotJSON = errors.New("the response is not JSON")

// printText prints a body that is not JSON. With --json or --jq it prints to stderr, because
// readers of stdout expect JSON.
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

// printBody prints the body of a response, or the results of --jq.
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
	decoder.UseNumber() // a float64 cannot represent all integers above 2^53
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

// printRaw prints encoded JSON: indented on a terminal without --json, and on one line otherwise.
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
