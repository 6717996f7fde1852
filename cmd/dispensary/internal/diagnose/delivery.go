package diagnose

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// Delivery is a saved webhook request.
type Delivery struct {
	Header http.Header
	Body   []byte

	// Announced is the length in Content-Length, in bytes. It is -1 if the header is missing or
	// invalid.
	Announced int
}

// errHead is returned for each unreadable request, without its text, which may be private.
var errHead = errors.New("diagnose: not an HTTP request: needs a request line, headers and an empty line before the body")

// Parse reads a whole HTTP request: request line, headers, an empty line, and the rest as the
// body. A line may end in LF without CR, as editors save it. Parse decodes a chunked body.
func Parse(saved []byte) (Delivery, error) {
	line, rest, _ := bytes.Cut(saved, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/") {
		return Delivery{}, errHead
	}
	end := len(rest)
	var body []byte
	for _, empty := range []string{"\r\n\r\n", "\n\n"} {
		if at := bytes.Index(rest, []byte(empty)); at >= 0 && at < end {
			end, body = at, rest[at+len(empty):]
		}
	}
	if body == nil {
		return Delivery{}, errHead
	}
	d, err := ParseParts(rest[:end], body)
	if err != nil {
		return Delivery{}, err
	}
	if d.Header.Get("Transfer-Encoding") == "chunked" {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(saved)))
		if err == nil {
			d.Body, err = io.ReadAll(request.Body)
		}
		if err != nil {
			return Delivery{}, errors.New("diagnose: invalid chunked body")
		}
	}
	return d, nil
}

// ParseParts returns the delivery with this body. It reads the headers from lines of the form
// "Name: value".
func ParseParts(headers, body []byte) (Delivery, error) {
	text := append(bytes.TrimSpace(bytes.Clone(headers)), "\r\n\r\n"...)
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return Delivery{}, errors.New(`diagnose: headers must be lines of the form "Name: value"`)
	}
	d := Delivery{Header: http.Header(header), Body: body, Announced: -1}
	if n, err := strconv.Atoi(d.Header.Get("Content-Length")); err == nil && n >= 0 {
		d.Announced = n
	}
	return d, nil
}
