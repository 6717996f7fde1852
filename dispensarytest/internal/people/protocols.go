package people

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Protocols performs actions of practitioners on protocols.
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
		Ownership: cmp.Or(in.Ownership, store.ProtocolOwned), Recommendations: slices.Clone(in.Recommendations),
	}
	if in.Draft {
		row.State = model.PlanStateDraft
	}
	if v := w.FirstAvailable(); len(row.Recommendations) == 0 && v != nil {
		row.Recommendations = []model.ProtocolRecommendation{{VariantID: v.ID, Quantity: 1}}
	}
	if _, known := w.Practitioners.Rows[row.PractitionerID]; !known {
		return out, store.Unknown("CreateProtocol", "practitioner", row.PractitionerID)
	}
	if err := protocolFits(w, row); err != nil {
		return out, err
	}
	row.ID = w.NewID("protocol")
	table.Put(&w.Protocols, row.ID, row)
	out = store.Detached(*row)
	return out, nil
}

func protocolFits(w *store.World, row *model.Protocol) error {
	if row.Ownership != store.ProtocolOwned && row.Ownership != store.ProtocolShared {
		return store.Refused("CreateProtocol", model.ErrValidation, "ownership %q is neither %q nor %q", row.Ownership, store.ProtocolOwned, store.ProtocolShared)
	}
	for _, r := range row.Recommendations {
		if _, known := w.Variant(r.VariantID); !known {
			return store.Unknown("CreateProtocol", "variant", r.VariantID)
		}
		if r.Quantity < 1 {
			return store.Refused("CreateProtocol", model.ErrValidation, "%d is not a quantity", r.Quantity)
		}
	}
	return nil
}
