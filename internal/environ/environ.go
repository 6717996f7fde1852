// Package environ reads the settings of programs: the names and values of environment variables, text
// files, and the joined errors of a check.
package environ

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
)

// Environments returns every environment of the platform, in a fixed order.
func Environments() []api.Environment {
	return []api.Environment{api.USProduction, api.CanadaProduction, api.USSandbox, api.CanadaSandbox}
}

// Variables returns the names of the variables with the URLs of an environment:
// DISPENSARY_US_SANDBOX_BASE_URL and DISPENSARY_US_SANDBOX_AUTH_URL for [api.USSandbox].
func Variables(e api.Environment) (baseURL, authURL string) {
	prefix := "DISPENSARY_" + strings.ToUpper(strings.ReplaceAll(string(e), "/", "_"))
	return prefix + "_BASE_URL", prefix + "_AUTH_URL"
}

// SharedVariables returns the names of the variables that are not settings of an integration: the
// variables of a single client, and the URL of the control API for a program that runs beside
// the fake.
func SharedVariables() []string {
	return []string{"DISPENSARY_ENVIRONMENT", "DISPENSARY_ACCESS_TOKEN", "DISPENSARY_CLINIC_KEY", "DISPENSARY_CONTROL_URL"}
}

// quotes are the pairs of opening and closing quotes. The typographic ones come from documents.
const quotes = `""''` + "``" + `“”„“””‘’‚‘’’«»»«‹›`

// reference matches a value that is only a reference to another variable.
var reference = regexp.MustCompile(`^\$\{\w+\}$`)

// ValueProblem returns the reason why a value must be a mistake, or "". docker run --env-file
// keeps the quotes of a .env file and expands no references. A quote inside or at one
// end of a value may belong to a secret.
func ValueProblem(value string) string {
	first, size := utf8.DecodeRuneInString(value)
	last, _ := utf8.DecodeLastRuneInString(value)
	if reference.MatchString(value) {
		return "is the unexpanded name of another variable"
	}
	for pair := []rune(quotes); size < len(value) && len(pair) > 0; pair = pair[2:] {
		if first == pair[0] && last == pair[1] {
			return "has quotes around it"
		}
	}
	return ""
}

// Errors returns the errors that [errors.Join] or fmt.Errorf with several %w joined to err, in
// order. It returns err itself if err is a single error, and no errors if err is nil.
func Errors(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, one := range several.Unwrap() {
		all = append(all, Errors(one)...)
	}
	return all
}

// ErrUTF16 is the error for a file in UTF-16. Its text follows the name of the file.
var ErrUTF16 = errors.New("is encoded in UTF-16: save it as UTF-8")

// DecodeText returns the content of a text file without the byte order mark of UTF-8. Notepad and
// PowerShell 5 begin UTF-8 files with one, and PowerShell 5 redirects output as UTF-16. DecodeText fails
// with [ErrUTF16] if the file begins with a byte order mark of UTF-16.
func DecodeText(content []byte) ([]byte, error) {
	if bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")) {
		return nil, ErrUTF16
	}
	return bytes.TrimPrefix(content, []byte("\ufeff")), nil
}
