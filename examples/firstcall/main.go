// Firstcall finds products; the README shows it as it stands here.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
)

func main() {
	client, err := dispensary.NewFromEnv() // addresses and token come from DISPENSARY_… variables, none are built in
	if err != nil {
		log.Fatal(err)
	}
	for product, err := range client.Catalog.Products.SearchAll(context.Background(), catalog.ProductSearchOptions{Query: "magnesium"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(product.Name, product.Status)
	}
}
