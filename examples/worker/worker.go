package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/clinic"
)

// concurrency is how many users are worked on at a time.
const concurrency = 4

// outcome is what the work for one user came to.
type outcome struct {
	user     string
	patients int
	err      error
}

// work lists the patients of everyone who is connected, and prints how many
// there are: a name or an address has no place in a log. The web application asks
// users to connect again who have to; a failure of one user does not end the work
// for the others.
func work(ctx context.Context, users *accounts.Accounts, out io.Writer) error {
	results := make(chan outcome)
	go func() {
		defer close(results)
		var running sync.WaitGroup
		defer running.Wait()
		slots := make(chan struct{}, concurrency)
		for account, err := range users.List(ctx, accounts.ListOptions{}) {
			if err != nil {
				results <- outcome{err: err}
				return
			}
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				results <- one(ctx, users, account)
			})
		}
	}()
	var problems []error
	for result := range results {
		switch {
		case result.err == nil:
			fmt.Fprintf(out, "%s has %d patients\n", result.user, result.patients)
		case errors.Is(result.err, dispensary.ErrReauthorize):
			fmt.Fprintf(out, "%s has to connect again\n", result.user)
		default:
			problems = append(problems, result.err)
		}
	}
	return errors.Join(problems...)
}

// one counts the patients of one user, page by page.
func one(ctx context.Context, users *accounts.Accounts, account accounts.Account) outcome {
	result := outcome{user: account.Key.User}
	if account.Status == accounts.MustReauthorize {
		result.err = dispensary.ErrReauthorize // known without asking the platform
		return result
	}
	client, err := users.Client(ctx, account.Key.User)
	if err != nil {
		result.err = err
		return result
	}
	for _, err := range client.Clinic.Patients.All(ctx, clinic.PatientListOptions{}) {
		if err != nil {
			result.err = err
			return result
		}
		result.patients++
	}
	return result
}
