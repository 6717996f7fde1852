package people

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Protocols acts for practitioners with protocols.
type Protocols struct{ *actions }

func (p Protocols) All() []model.Protocol {
	return all(p.actions, func(w *store.World) table.Table[*model.Protocol] { return w.Protocols })
}

func (p Protocols) Get(id string) (model.Protocol, bool) {
	return find(p.actions, func(w *store.World) table.Table[*model.Protocol] { return w.Protocols }, id)
}

func (p Protocols) Create(in model.ProtocolCreate) (out model.Protocol, err error) {
	w, done := p.begin()
	defer done()
	row := &model.Protocol{
		Name: cmp.Or(in.Name, fmt.Sprintf("New Protocol %d", len(w.Protocols.Rows)+1)), State: model.PlanStateActive,
		PractitionerID: cmp.Or(in.PractitionerID, table.At(w.Practitioners, 0).ID), PersonalMessage: in.PersonalMessage,
		Ownership: cmp.Or(in.Ownership, model.ProtocolOwned), Recommendations: slices.Clone(in.Recommendations),
	}
	if in.Draft {
		row.State = model.PlanStateDraft
	}
	if v := w.FirstAvailable(); len(row.Recommendations) == 0 && v != nil {
		row.Recommendations = []model.ProtocolRecommendation{{VariantID: v.ID, Quantity: 1}}
	}
	if _, known := w.Practitioners.Rows[row.PractitionerID]; !known {
		return out, model.Unknown("CreateProtocol", "practitioner", row.PractitionerID)
	}
	if err := protocolFits(w, "CreateProtocol", row); err != nil {
		return out, err
	}
	row.ID = w.NewID("protocol")
	table.Put(&w.Protocols, row.ID, row)
	out = store.Detached(*row)
	return out, nil
}

func (p Protocols) Update(id string, in model.ProtocolUpdate) (model.Protocol, error) {
	return p.changeProtocol("UpdateProtocol", id, []string{model.PlanStateDraft, model.PlanStateActive}, func(row *model.Protocol) {
		set(&row.Name, in.Name)
		set(&row.PersonalMessage, in.PersonalMessage)
		set(&row.Ownership, in.Ownership)
		if in.Recommendations != nil {
			row.Recommendations = slices.Clone(in.Recommendations)
		}
	})
}

func (p Protocols) Activate(id string) (model.Protocol, error) {
	return p.changeProtocol("ActivateProtocol", id, []string{model.PlanStateDraft}, func(row *model.Protocol) { row.State = model.PlanStateActive })
}

func (p Protocols) Cancel(id string) (model.Protocol, error) {
	return p.changeProtocol("CancelProtocol", id, []string{model.PlanStateDraft, model.PlanStateActive}, func(row *model.Protocol) { row.State = model.PlanStateCanceled })
}

func (p Protocols) changeProtocol(action, id string, from []string, change func(*model.Protocol)) (out model.Protocol, err error) {
	w, done := p.begin()
	defer done()
	old, known := w.Protocols.Rows[id]
	if !known {
		return out, model.Unknown(action, "protocol", id)
	}
	if !slices.Contains(from, old.State) {
		return out, model.Refused(action, model.ErrState, "protocol %q is %s", id, old.State)
	}
	row := *old
	change(&row)
	if err := protocolFits(w, action, &row); err != nil {
		return out, err
	}
	table.Put(&w.Protocols, id, &row)
	out = store.Detached(row)
	return out, nil
}

func protocolFits(w *store.World, action string, row *model.Protocol) error {
	switch {
	case row.Name == "":
		return model.Refused(action, model.ErrValidation, "a protocol needs a name")
	case row.Ownership != model.ProtocolOwned && row.Ownership != model.ProtocolShared:
		return model.Refused(action, model.ErrValidation, "ownership %q is neither %q nor %q", row.Ownership, model.ProtocolOwned, model.ProtocolShared)
	}
	for _, r := range row.Recommendations {
		if _, known := w.Variant(r.VariantID); !known {
			return model.Unknown(action, "variant", r.VariantID)
		}
		if r.Quantity < 1 {
			return model.Refused(action, model.ErrValidation, "%d is not a quantity", r.Quantity)
		}
	}
	return nil
}
