package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// settings are what a real program reads from its configuration.
type settings struct {
	site      dispensary.Site
	client    *dispensary.Client // with the token of a user of the clinic
	clinic    string             // its ID
	secret    dispensary.Secret
	challenge dispensary.Secret
	database  string
	keys      *seal.KeyRing
	logger    *slog.Logger
	now       func() time.Time

	handle   func(context.Context, events.OrderEvent) error
	observed func(context.Context, reconcile.Report, error)
}

// receiver takes webhooks in, and looks for those that never came: once an hour,
// when the program starts, and when an outage is over.
type receiver struct {
	http.Handler
	inbox *sqlinbox.Inbox
	stop  context.CancelFunc
	loop  chan error
}

func newReceiver(s settings) (*receiver, error) {
	var router webhook.Router
	router.OnOrderPlaced(s.handle)
	inbox, err := sqlinbox.Open(s.database, sqlinbox.Config{
		Work: webhook.Work{Handle: router.Dispatch, Logger: s.logger},
		Seal: s.keys,
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &receiver{inbox: inbox, stop: stop, loop: make(chan error, 1)}
	clinics, err := newClinics(s, inbox)
	if err == nil {
		r.Handler, err = newHandler(s, inbox, clinics)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, inbox.Close(context.Background()))
	}
	clinics.Trigger() // for events of the time before the start
	go func() { r.loop <- clinics.Loop(ctx, time.Hour) }()
	return r, nil
}

// newClinics reconciles the clinic of the token. A program with many users lists and opens
// their clinics with package accounts.
func newClinics(s settings, inbox *sqlinbox.Inbox) (*reconcile.Clinics, error) {
	return reconcile.New(reconcile.Config{
		Environment: s.site.Environment,
		Inbox:       inbox, // the inbox of the webhooks
		List:        reconcile.ClinicIDs(s.clinic),
		Open: func(context.Context, string, dispensary.Limiter) (reconcile.Clinic, error) {
			return reconcile.Clinic{Events: s.client.Events, Integrations: s.integrations}, nil
		},
		Logger:   s.logger,
		Observer: reconcile.Observer{RunEnd: s.observed},
		Now:      s.now,
	})
}

// integrations returns the IDs of the integrations whose webhooks arrive here.
func (s settings) integrations(ctx context.Context) ([]string, error) {
	clinic, err := s.client.Clinic.Get(ctx)
	if err != nil {
		return nil, err
	}
	return []string{clinic.IntegrationID}, nil
}

// newHandler returns the handler with an alarm beside it. The alarm warns before the platform
// disables the endpoint, and starts a run at the end of an outage.
func newHandler(s settings, inbox *sqlinbox.Inbox, clinics *reconcile.Clinics) (http.Handler, error) {
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{
		Notify: func(ctx context.Context, outage webhook.Outage) {
			s.logger.WarnContext(ctx, "webhooks fail", "over", outage.Over, "failures", outage.Failures, "age", outage.Age())
			clinics.RunAfterOutage(outage)
		},
		Now: s.now,
	})
	if err != nil {
		return nil, err
	}
	return webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.site.Environment,
		Secrets:     []dispensary.Secret{s.secret},
		Challenge:   s.challenge,
		Inbox:       inbox,
		Logger:      s.logger,
		Observer:    webhook.Observer{RequestEnd: alarm.Observe},
		Now:         s.now,
	})
}

// close ends the loop, and then the inbox.
func (r *receiver) close(ctx context.Context) error {
	r.stop()
	if err := <-r.loop; !errors.Is(err, context.Canceled) {
		return errors.Join(err, r.inbox.Close(ctx))
	}
	return r.inbox.Close(ctx)
}
