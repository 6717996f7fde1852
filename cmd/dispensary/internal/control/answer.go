package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// problem is an error of the API with its HTTP status.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

func invalid(format string, args ...any) error {
	return &problem{status: 422, message: fmt.Sprintf(format, args...)}
}

// refuse sends an error response. An error of the platform determines the status: 404, 409, or
// 422 for any other error.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	var p *problem
	switch {
	case errors.As(err, &p):
		status = p.status
	case errors.Is(err, model.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, model.ErrState):
		status = http.StatusConflict
	}
	send(w, status, jsonMedia, errorBody(strings.TrimPrefix(err.Error(), "dispensarytest: ")))
}

func errorBody(message string) []byte {
	body, _ := json.Marshal(map[string]string{"error": message}) // strings always encode
	return body
}

const jsonMedia = "application/json"

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}
