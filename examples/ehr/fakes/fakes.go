// Package fakes starts fake platforms for the example if no platform is configured: one for each of two
// countries, with a configuration and a file.
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

// Fakes contains the platforms, with two clinics each, and a configuration of the EHR for them.
type Fakes struct {
	US, Canada *dispensarytest.Server
	Config     integration.Config

	// Clinics maps the practices of the EHR to the platform's IDs of their clinics.
	Clinics map[string]string

	folder string
}

// Start starts the platforms for an EHR at an address. Variables of the form NAME=VALUE override the
// values of the fakes.
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

// Load reads the configuration of an EHR at an address from environment variables, and the clinics of its
// practices from EHR_CLINICS: "maple-hollow=ID,two-rivers=ID,birch-harbour=ID", with the platform's IDs. If
// there is no configuration, Load starts fakes and prints the URL to open. Always call end: it stops them.
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
	fmt.Printf("Open %s in a browser. Press Ctrl-C to stop.\nTo connect, sign in to the platform with one of its accounts:\n", home)
	for _, account := range f.Users() {
		fmt.Printf("  %-20s %-42s %s\n", account.Name, account.Email, account.Password)
	}
	return f.Config, f.Clinics, func() { _ = f.Close() }, nil
}

// Users returns one platform account of each clinic for the practitioners to connect.
func (f *Fakes) Users() []model.User {
	us := f.US.Users()
	return []model.User{us[0], us[3], f.Canada.Users()[1]}
}

// Close stops the platforms and removes the file.
func (f *Fakes) Close() error {
	var problems []error
	for _, platform := range []*dispensarytest.Server{f.US, f.Canada} {
		if platform != nil {
			problems = append(problems, platform.Close())
		}
	}
	return errors.Join(append(problems, os.RemoveAll(f.folder))...)
}
