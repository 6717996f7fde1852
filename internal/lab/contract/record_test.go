package contract

import (
	"bytes"
	"io"
	"net/http"
)

// Exchange is a request and its response, with the bodies read.
type Exchange struct {
	Request      *http.Request
	RequestBody  []byte
	Response     *http.Response
	ResponseBody []byte
}

// Recorder is an [http.RoundTripper] that stores the exchanges of sequential calls.
type Recorder struct {
	Base      http.RoundTripper
	Exchanges []Exchange // in the order of the responses
}

// RoundTrip sends the request and stores the exchange. It reads the response to its end.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.Base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	r.Exchanges = append(r.Exchanges, Exchange{sent, body, resp, answer})
	return resp, nil
}
