package main

import (
	"log"
	"os"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func Example() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	site, token := platform.Site(), platform.Tokens.Issue(model.User{})
	for name, value := range map[string]string{
		"DISPENSARY_US_SANDBOX_BASE_URL": site.BaseURL, "DISPENSARY_US_SANDBOX_AUTH_URL": site.AuthURL, "DISPENSARY_ACCESS_TOKEN": token.AccessToken,
	} {
		if err := os.Setenv(name, value); err != nil {
			log.Fatal(err)
		}
	}

	main()
	// Output:
	// Calm Magnesium Powder available
	// Magnesium Glycinate available
}
