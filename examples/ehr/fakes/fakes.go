// Package fakes is what the example runs on where no platform is configured: a fake of it
// for each of two countries, and a configuration with a file.
package fakes

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/integration"
)

// Fakes are the platforms, with two clinics each, and the configuration of a health
// record that uses them.
type Fakes struct {
	US, Canada *dispensarytest.Server
	Config     integration.Config

	// Clinics maps the practices of the health record to the platform's ids of their clinics.
	Clinics map[string]string

	folder string
}

// Start starts the platforms for a health record at an address. Variables in
// the form NAME=VALUE override those of the fakes.
func Start(home string, variables ...string) (_ *Fakes, err error) {
	f := &Fakes{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.folder, err = os.MkdirTemp("", "ehr"); err != nil {
		return nil, err
	}
	database := "sqlite:" + filepath.Join(f.folder, "ehr.db")
	all := []string{
		"DISPENSARY_STORE=" + database, "DISPENSARY_INBOX=" + database, "DISPENSARY_STATE_KEYS=" + rand.Text() + rand.Text(),
		"DISPENSARY_SEAL_KEYS=fake:" + base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32]),
	}
	for environment, platform := range map[api.Environment]**dispensarytest.Server{api.USSandbox: &f.US, api.CanadaSandbox: &f.Canada} {
		if *platform, err = dispensarytest.Start(
			dispensarytest.WithEnvironment(environment), dispensarytest.WithRedirectURI(home+"/dispensary/callback"),
			dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 12}}), dispensarytest.WithBehavior(behavior.DeliveryConditionsOff),
		); err != nil {
			return nil, err
		}
		for _, key := range (*platform).ClinicKeys() {
			if _, err := (*platform).Clinics.ActivateKey(key); err != nil {
				return nil, err
			}
		}
		all = append(all, (*platform).Variables()...)
	}
	f.Clinics = map[string]string{}
	for i, user := range f.Users() {
		f.Clinics[[]string{"maple-hollow", "two-rivers", "birch-harbour"}[i]] = user.ClinicID
	}
	if f.Config, err = integration.Load(append(all, variables...)); err != nil {
		return nil, err
	}
	for _, application := range f.Config.Applications {
		platform := f.US
		if application.Site == f.Canada.Site() {
			platform = f.Canada
		}
		if err := platform.Webhooks.Register(home + "/webhooks/" + application.Name()); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Load reads the configuration of a health record at an address from the environment, and
// the clinics of its practices from EHR_CLINICS: "maple-hollow=ID,two-rivers=ID,birch-harbour=ID", with the
// platform's ids. If there is no configuration, Load starts fakes and prints where to
// click. Call end in any case: it stops them.
func Load(home string) (config integration.Config, clinics map[string]string, end func(), err error) {
	config, err = integration.Load(os.Environ())
	if len(config.Applications) > 0 {
		clinics = map[string]string{}
		for pair := range strings.SplitSeq(os.Getenv("EHR_CLINICS"), ",") {
			name, id, _ := strings.Cut(pair, "=")
			clinics[name] = id
		}
		return config, clinics, func() {}, err
	}
	f, err := Start(home)
	if err != nil {
		return config, nil, func() {}, err
	}
	fmt.Printf("Open %s in a browser; end with Ctrl-C.\nThe platform asks for its own accounts when a practitioner connects:\n", home)
	for _, account := range f.Users() {
		fmt.Printf("  %-20s %-42s %s\n", account.Name, account.Email, account.Password)
	}
	return f.Config, f.Clinics, func() { _ = f.Close() }, nil
}

// Users are the accounts of the platforms that the practitioners of the health record
// connect: one of each clinic.
func (f *Fakes) Users() []model.User {
	us := f.US.Users()
	return []model.User{us[0], us[3], f.Canada.Users()[1]}
}

// Close ends the platforms, and removes the file.
func (f *Fakes) Close() error {
	var problems []error
	for _, platform := range []*dispensarytest.Server{f.US, f.Canada} {
		if platform != nil {
			problems = append(problems, platform.Close())
		}
	}
	return errors.Join(append(problems, os.RemoveAll(f.folder))...)
}
