package control

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"reflect"
)

func stateOperations() []Operation {
	return []Operation{
		download("state.save", "/state", jsonMedia, "The platform as it is now, as a file: its world, tokens, deliveries and readings.", func(c *call, to io.Writer) error { return c.fake.Save(to) }),
		{
			ID: "state.load", Method: http.MethodPut, Path: "/state", Upload: true,
			Summary: "Takes the platform back to a file of its own, or of another one of the same seed and region. Journal, faults and the time stay as they are.",
			answer:  reflect.TypeFor[nothing](),
			run:     func(c *call, body []byte) (any, error) { return nothing{}, c.fake.Load(bytes.NewReader(body)) },
		},
		download("timeline.get", "/timeline", "text/html; charset=utf-8", "What happened, as one page that needs nothing else: requests, events, deliveries and moves of the clock.", func(c *call, to io.Writer) error { return c.fake.WriteTimeline(to) }),
		read("certificate.get", "/certificate", "certificate", "The platform's own certificate (PEM), for clients to trust; null where it does without TLS.", func(c *call) (*string, error) { return pemOf(c.fake.Certificate()), nil }),
	}
}

func pemOf(certificate *x509.Certificate) *string {
	if certificate == nil {
		return nil
	}
	return new(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})))
}
