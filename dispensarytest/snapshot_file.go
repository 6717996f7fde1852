package dispensarytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
)

// snapshotVersion is what this package writes, and reads.
const snapshotVersion = 2

// snapshotFile is a snapshot as it is saved: JSON, to be read by people as well. It
// holds what has changed since an earlier one; a whole snapshot is what has changed
// since there was nothing.
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
	Tokens     *tokensFile `json:",omitempty"` // nil where they are as they were
	Webhooks   webhooksFile
}

type worldFile struct {
	Numbers           map[string]uint64
	Allergens         rowsFile[*Term]
	Ingredients       rowsFile[*Term]
	SupplementTypes   rowsFile[*Term]
	Certifications    rowsFile[*Term]
	PractitionerTypes rowsFile[*PractitionerType]
	Brands            rowsFile[*Brand]
	Products          rowsFile[*Product]
	Variants          rowsFile[*Variant]
	Categories        rowsFile[*Category]
	CustomDosages     rowsFile[customDosageFile]
	Clinics           rowsFile[*Clinic]
	Integrations      rowsFile[integrationFile]
	Patients          rowsFile[*Patient]
	Practitioners     rowsFile[*Practitioner]
	Staff             rowsFile[*StaffMember]
	Addresses         rowsFile[*Address]
	Users             rowsFile[userFile]
	Plans             rowsFile[*Plan]
	Protocols         rowsFile[*Protocol]
	Orders            rowsFile[*Order]
	Events            rowsFile[*Event]
	Carts             rowsFile[cartFile]
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
	Refresh                         string `json:",omitempty"`
	Grant                           int
	Created, Expires                time.Time
	Used                            bool
	Revoked                         bool `json:",omitempty"`
}

type codeFile struct {
	User    userFile
	Scopes  []string
	Expires time.Time
}

// Save writes the snapshot as one line of JSON. It holds the platform's made-up
// patients and secrets.
func (s *Snapshot) Save(to io.Writer) error { return s.file(nothing()).write(to) }

// SaveChanges writes what has changed since an earlier snapshot of the same
// platform, as one line to add to what [Snapshot.Save] wrote of that; nothing, if
// nothing has changed. How long it takes follows from how much has changed, not from
// how much there is.
func (s *Snapshot) SaveChanges(to io.Writer, since *Snapshot) error {
	var changed, same bytes.Buffer
	changes, none := s.file(since), since.file(since)
	if !s.frozen {
		none.At = changes.At // a live clock goes on by itself
	}
	if err := errors.Join(changes.write(&changed), none.write(&same)); err != nil {
		return err
	}
	if bytes.Equal(changed.Bytes(), same.Bytes()) {
		return nil
	}
	_, err := to.Write(changed.Bytes())
	return err
}

// nothing is where a whole snapshot begins.
func nothing() *Snapshot { return &Snapshot{world: &world{}} }

// file is what the snapshot has that an earlier one has not.
func (s *Snapshot) file(since *Snapshot) snapshotFile {
	f := snapshotFile{
		Version: snapshotVersion, Seed: s.seed, Region: s.region, Compatible: s.compatible,
		At: s.at, Frozen: s.frozen, Offset: s.offset, Readings: s.reads.chosen,
		World: s.world.file(since.world), Webhooks: s.sender.file(&since.sender),
	}
	if tokens := s.tokens.file(); !reflect.DeepEqual(tokens, since.tokens.file()) {
		f.Tokens = &tokens
	}
	return f
}

func (f snapshotFile) write(to io.Writer) error {
	if err := json.NewEncoder(to).Encode(f); err != nil {
		return fmt.Errorf("dispensarytest: saving a snapshot: %w", err)
	}
	return nil
}

// LoadSnapshot reads what [Snapshot.Save] wrote, and what [Snapshot.SaveChanges]
// added to it. A last line that was cut short, because whoever wrote it was killed,
// is left out.
func LoadSnapshot(from io.Reader) (*Snapshot, error) {
	lines := json.NewDecoder(from)
	file, err := readSnapshot(lines)
	for err == nil {
		var changes snapshotFile
		if changes, err = readSnapshot(lines); err == nil {
			err = file.merge(changes)
		}
	}
	if file.Version == 0 || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("dispensarytest: loading a snapshot: %w", err)
	}
	return file.snapshot()
}

func readSnapshot(lines *json.Decoder) (file snapshotFile, err error) {
	if err := lines.Decode(&file); err != nil {
		return snapshotFile{}, err
	}
	if file.Version != snapshotVersion {
		return snapshotFile{}, fmt.Errorf("version %d is not %d", file.Version, snapshotVersion)
	}
	return file, nil
}

// merge makes of a file what it was when the changes were written.
func (f *snapshotFile) merge(changes snapshotFile) error {
	world, webhooks, tokens := f.World, f.Webhooks, f.Tokens
	*f = changes
	f.World, f.Webhooks = world, webhooks
	if f.Tokens == nil {
		f.Tokens = tokens
	}
	return errors.Join(f.World.merge(changes.World), f.Webhooks.merge(changes.Webhooks))
}

func (f snapshotFile) snapshot() (*Snapshot, error) {
	snap := &Snapshot{
		seed: f.Seed, region: f.Region, compatible: f.Compatible, at: f.At.UTC(), frozen: f.Frozen,
		offset: f.Offset, reads: defaultReadings(), sender: f.Webhooks.state(),
	}
	for silence, reading := range f.Readings {
		if err := snap.reads.choose(silence, reading); err != nil {
			return nil, err
		}
	}
	snap.world = &world{seed: regionSeed(f.Seed, f.Region), region: f.Region, longIDs: f.Compatible != 0, numbers: f.World.Numbers}
	if len(f.World.Clinics.Rows) == 0 || snap.world.numbers == nil || f.Tokens == nil {
		return nil, errors.New("dispensarytest: loading a snapshot: it has no world")
	}
	snap.world.load(f.World)
	sealed(snap.world)
	var err error
	snap.tokens, err = f.Tokens.state()
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

func fileUser(u User) userFile { return userFile{User: u, ClinicID: u.clinicID} }

func (f userFile) user() User {
	f.User.clinicID = f.ClinicID
	return f.User
}
