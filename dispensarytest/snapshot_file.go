package dispensarytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"time"
)

// snapshotVersion is what this package writes, and reads.
const snapshotVersion = 1

// snapshotFile is a snapshot as it is saved: JSON, to be read by people as well.
type snapshotFile struct {
	Version    int
	Seed       uint64
	Region     Region
	Compatible uint64 `json:",omitempty"`
	At         time.Time
	Frozen     bool
	Offset     time.Duration
	Readings   map[string]string
	World      worldFile
	Tokens     tokensFile
	Webhooks   webhooksFile
}

type worldFile struct {
	Numbers           map[string]uint64
	Allergens         []*Term
	Ingredients       []*Term
	SupplementTypes   []*Term
	Certifications    []*Term
	PractitionerTypes []*PractitionerType
	Brands            []*Brand
	Products          []*Product
	Variants          []*Variant
	Categories        []*Category
	CustomDosages     []customDosageFile
	Clinics           []*Clinic
	Integrations      []integrationFile
	Patients          []*Patient
	Practitioners     []*Practitioner
	Staff             []*StaffMember
	Addresses         []*Address
	Users             []userFile
	Plans             []*Plan
	Protocols         []*Protocol
	Orders            []*Order
	Events            []*Event
	Carts             []cartFile
}

type customDosageFile struct {
	PractitionerID, ProductID string
	Dosage                    Dosage
}

type integrationFile struct {
	ID, ClinicID, Key string
	Activated         time.Time
	Revoked           bool
}

type userFile struct {
	User
	ClinicID string
}

type cartFile struct {
	PatientID, PlanID string
	Lines             []Line
}

type tokensFile struct {
	Scopes  []string
	Issued  int
	Grants  []grantFile
	Access  []accessFile
	Refresh map[string]int
	Codes   map[string]codeFile
}

type grantFile struct {
	User              userFile
	Scopes            []string
	Revoked, Obsolete bool
}

type accessFile struct {
	ID, Value, ClinicID, Supersedes string
	Grant                           int
	Created, Expires                time.Time
	Used                            bool
}

type codeFile struct {
	User    userFile
	Scopes  []string
	Expires time.Time
}

type webhooksFile struct {
	Endpoint   *Endpoint
	Deliveries []deliveryFile
	Skips      map[string]string
}

type deliveryFile struct {
	Delivery
	Event Event
}

// Save writes the snapshot as JSON. It holds the platform's made-up patients and
// secrets.
func (s *Snapshot) Save(to io.Writer) error {
	file := snapshotFile{
		Version: snapshotVersion, Seed: s.seed, Region: s.region, Compatible: s.compatible,
		At: s.at, Frozen: s.frozen, Offset: s.offset, Readings: s.reads.chosen,
		World: s.world.file(), Tokens: s.tokens.file(), Webhooks: s.sender.file(),
	}
	if err := json.NewEncoder(to).Encode(file); err != nil {
		return fmt.Errorf("dispensarytest: saving a snapshot: %w", err)
	}
	return nil
}

// LoadSnapshot reads what [Snapshot.Save] wrote.
func LoadSnapshot(from io.Reader) (*Snapshot, error) {
	var file snapshotFile
	if err := json.NewDecoder(from).Decode(&file); err != nil {
		return nil, fmt.Errorf("dispensarytest: loading a snapshot: %w", err)
	}
	if file.Version != snapshotVersion {
		return nil, fmt.Errorf("dispensarytest: loading a snapshot: version %d is not %d", file.Version, snapshotVersion)
	}
	snap := &Snapshot{
		seed: file.Seed, region: file.Region, compatible: file.Compatible, at: file.At.UTC(), frozen: file.Frozen,
		offset: file.Offset, reads: defaultReadings(), sender: file.Webhooks.state(),
	}
	for silence, reading := range file.Readings {
		if err := snap.reads.choose(silence, reading); err != nil {
			return nil, err
		}
	}
	snap.world = &world{seed: regionSeed(file.Seed, file.Region), region: file.Region, longIDs: file.Compatible != 0, numbers: file.World.Numbers}
	if len(file.World.Clinics) == 0 || snap.world.numbers == nil {
		return nil, errors.New("dispensarytest: loading a snapshot: it has no world")
	}
	snap.world.load(file.World)
	sealed(snap.world)
	var err error
	snap.tokens, err = file.Tokens.state()
	return snap, err
}

// Save writes the platform as it is now; see [Snapshot.Save].
func (s *Server) Save(to io.Writer) error { return s.Snapshot().Save(to) }

// Load takes the platform back to what [Server.Save] wrote; see [Server.Restore].
func (s *Server) Load(from io.Reader) error {
	snap, err := LoadSnapshot(from)
	if err != nil {
		return err
	}
	if snap.seed != s.set.seed || snap.region != s.set.region {
		return errors.New("dispensarytest: Load: the snapshot is of another seed or region, start it with WithSnapshot")
	}
	s.Restore(snap)
	return nil
}

// rowsOf collects a table.
func rowsOf[T any](t *table[T]) []*T { return collect(t.all(), func(row *T) *T { return row }) }

func collect[T, F any](rows iter.Seq[*T], as func(*T) F) []F {
	out := []F{}
	for row := range rows {
		out = append(out, as(row))
	}
	return out
}

func fileUser(u User) userFile { return userFile{User: u, ClinicID: u.clinicID} }

func (f userFile) user() User {
	f.User.clinicID = f.ClinicID
	return f.User
}

func (s senderState) file() webhooksFile {
	file := webhooksFile{Endpoint: s.endpoint, Skips: s.skips}
	for _, d := range s.all {
		file.Deliveries = append(file.Deliveries, deliveryFile{Delivery: d.Delivery, Event: d.event})
	}
	return file
}

func (f webhooksFile) state() senderState {
	state := senderState{endpoint: f.Endpoint, skips: maps.Clone(f.Skips)}
	for _, d := range f.Deliveries {
		state.all = append(state.all, delivery{Delivery: d.Delivery, event: d.Event})
	}
	return state
}
