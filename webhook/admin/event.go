package admin

import (
	"errors"
	"html/template"
	"net/http"

	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// detailView is the page of one event.
type detailView struct {
	eventView
	Key     string
	CanOpen bool
	Opened  bool
	Body    string
	Error   string
	Lost    bool // the body cannot be opened any more
	Replay  template.URL
	Discard template.URL
}

// event shows what is known of one event, with its body closed.
func (h *Handler) event(w http.ResponseWriter, r *http.Request) {
	if v, ok := h.find(w, r); ok {
		h.showEvent(w, v)
	}
}

// find looks for the one event that the address names, and shows why there is none.
func (h *Handler) find(w http.ResponseWriter, r *http.Request) (v detailView, ok bool) {
	f, err := filterOf(r.URL.Query(), h.config.Now())
	if err != nil || len(f.Keys) != 1 {
		h.refuse(w, http.StatusBadRequest, errBadFilter.Error(), 1)
		return v, false
	}
	stored, err := h.config.Engine.List(r.Context(), engine.Filter{Keys: f.Keys}, engine.Position{}, 1)
	if err != nil {
		h.fail(w, err)
		return v, false
	}
	if len(stored) == 0 {
		h.notStored(w)
		return v, false
	}
	one := engine.Filter{Keys: f.Keys}
	return detailView{
		eventView: viewOf(stored[0]), Key: f.Keys[0].String(), CanOpen: h.config.Observer.BodyOpened != nil,
		Replay: bulkAddress("replay", one), Discard: bulkAddress("discard", one),
	}, true
}

func (h *Handler) notStored(w http.ResponseWriter) {
	h.refuse(w, http.StatusNotFound, "This event is not stored any more: it was handled or discarded, or never came.", 1)
}

func (h *Handler) showEvent(w http.ResponseWriter, v detailView) {
	path := "waiting"
	if v.Dead {
		path = "dead"
	}
	h.show(w, http.StatusOK, "event", frame{Title: string(v.Type), Path: path, View: v})
}

// openBody shows an event with its body, once that was recorded. It has the address of the page
// of the event, where a reload or a shared link finds the body closed.
func (h *Handler) openBody(w http.ResponseWriter, r *http.Request) {
	v, ok := h.find(w, r)
	if !ok {
		return
	}
	key := v.Event.Key
	if h.config.Observer.BodyOpened == nil || h.config.Observer.BodyOpened(r, key) != nil {
		h.refuse(w, http.StatusForbidden, "Who opens a body is recorded, and that was not possible. The body stays closed.", 1)
		return
	}
	opened, err := h.config.Engine.Open(r.Context(), key)
	switch {
	case errors.Is(err, engine.ErrNotStored):
		h.notStored(w)
		return
	case errors.Is(err, webhook.ErrBodyLost):
		v.Lost = true
	case err != nil:
		h.fail(w, err)
		return
	default:
		v.Opened, v.Body = true, webpage.Pretty(opened.Body)
		if opened.Err != nil {
			v.Error = opened.Err.Error()
		}
	}
	h.showEvent(w, v)
}
