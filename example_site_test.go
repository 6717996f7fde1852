package dispensary_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
)

// The platform publishes its addresses to its integrators. A program reads them
// from its environment, through os.LookupEnv, and asks for the site it needs.
func ExampleDirectoryFromEnviron() {
	environ := map[string]string{
		"DISPENSARY_US_SANDBOX_BASE_URL": "https://platform.example/api",
		"DISPENSARY_US_SANDBOX_AUTH_URL": "https://login.platform.example",
	}
	directory, err := dispensary.DirectoryFromEnviron(func(name string) (string, bool) {
		value, ok := environ[name]
		return value, ok
	})
	if err != nil {
		log.Fatal(err)
	}
	site, err := directory.Site(dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(site.Environment, site.BaseURL)

	_, err = directory.Site(dispensary.Environment{Region: dispensary.Canada, Stage: dispensary.Production})
	fmt.Println(errors.Is(err, dispensary.ErrUnknownSite))
	// Output:
	// us/sandbox https://platform.example/api
	// true
}

// Plain HTTP is for the machine itself. Everywhere else it is refused before
// anything can be sent.
func ExampleNewDirectory() {
	sandbox := dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox}
	_, err := dispensary.NewDirectory(dispensary.Site{
		Environment: sandbox, BaseURL: "http://platform.example/api", AuthURL: "https://login.platform.example",
	})
	fmt.Println(errors.Is(err, dispensary.ErrInsecure))
	// Output: true
}

// A secret is not printed; Reveal returns it.
func ExampleSecret() {
	secret := dispensary.NewSecret("s3cr3t")
	fmt.Printf("%v %+v %s %q\n", secret, secret, secret, secret)
	fmt.Println(secret.Reveal())
	// Output:
	// [redacted] [redacted] [redacted] [redacted]
	// s3cr3t
}
