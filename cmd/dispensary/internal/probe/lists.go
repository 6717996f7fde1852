package probe

import "strconv"

// listPoints returns the points that lists show.
func listPoints() []point {
	return []point{
		{"default-page-size", []string{"25", "20", "2"}, (*session).defaultPageSize},
		{"oversized-page", []string{"clamped", "rejected"}, (*session).oversizedPage},
		{"page-beyond-last", []string{"empty", "not-found"}, (*session).pageBeyondLast},
		{"array-filters", []string{"all", "any"}, (*session).arrayFilters},
		{"vendor-backorder", []string{"unavailable", "backordered"}, (*session).vendorBackorder},
	}
}

func (s *session) defaultPageSize() Finding {
	a := s.get("/catalog/products")
	switch n := len(a.rows("products")); {
	case !a.ok():
		return unexpected(a)
	case a.meta("total_count") <= n:
		return hidden("the sandbox has only "+strconv.Itoa(n)+" products, on one page", a)
	default:
		return seen(strconv.Itoa(n), a)
	}
}

func (s *session) oversizedPage() Finding {
	a := s.get("/catalog/products", "page[size]", "101")
	f := decide(a, "clamped", "rejected")
	switch {
	case !a.ok():
	case len(a.rows("products")) > 100:
		return ambiguous("a request for 101 products returned more than 100", a)
	case a.meta("total_count") <= 100:
		f.Why = "the request is accepted, but the limit of 100 shows only with more products"
	}
	return f
}

func (s *session) pageBeyondLast() Finding {
	first := s.get("/catalog/brands")
	if !first.ok() {
		return unexpected(first)
	}
	a := s.get("/catalog/brands", "page[number]", strconv.Itoa(max(first.meta("total_pages"), 1)+1))
	if a.ok() && len(a.rows("brands")) > 0 {
		return ambiguous("the page after the last one has brands", a)
	}
	return decide(a, "empty", "not-found")
}

// maxIngredients is the largest number of ingredients to search for.
const maxIngredients = 12

// arrayFilters counts the products of two ingredients separately and together. If the filter
// narrows, both find at most as many products as the rarer one. If it widens, they find at
// least as many as the more common one.
func (s *session) arrayFilters() Finding {
	list := s.get("/catalog/ingredients", "page[size]", strconv.Itoa(maxIngredients))
	if !list.ok() {
		return unexpected(list)
	}
	const path, filter = "/catalog/search/products", "ingredient_ids[]"
	var last answer
	var lastID string
	for _, row := range list.rows("ingredients") {
		id := textAt(row, "id")
		one := s.get(path, filter, id, "page[size]", "1")
		if !one.ok() {
			return unexpected(one)
		}
		if one.meta("total_count") == 0 {
			continue
		}
		if lastID != "" {
			both := s.get(path, filter, lastID, filter, id, "page[size]", "1")
			few, many := min(one.meta("total_count"), last.meta("total_count")), max(one.meta("total_count"), last.meta("total_count"))
			switch n := both.meta("total_count"); {
			case !both.ok():
				return unexpected(both)
			case n <= few && n < many:
				return seen("all", last, one, both)
			case n >= many && n > few:
				return seen("any", last, one, both)
			case n != few:
				return ambiguous("a search for two ingredients matches neither variant", last, one, both)
			}
		}
		last, lastID = one, id
	}
	return hidden("found no two ingredients that distinguish the variants", list)
}

// maxProducts is the largest number of products to read one by one.
const maxProducts = 40

// vendorBackorder searches for a product with a variant of this status and no available or
// otherwise backordered variant.
func (s *session) vendorBackorder() Finding {
	looked := 0
	for page, more := 1, true; more && page <= 3; page++ {
		list := s.get("/catalog/products", "page[size]", "100", "page[number]", strconv.Itoa(page))
		if !list.ok() {
			return unexpected(list)
		}
		for _, row := range list.rows("products") {
			if textAt(row, "status") == "available" {
				continue
			}
			if looked++; looked > maxProducts {
				break
			}
			a := s.get("/catalog/products/" + textAt(row, "id"))
			if a.ok() && onlyVendorBackorder(a) {
				return seen(a.text("product", "status"), a)
			}
		}
		more = list.meta("total_pages") > page && looked <= maxProducts
	}
	return hidden("found no product with only a vendor backorder")
}

func onlyVendorBackorder(a answer) bool {
	found, _ := a.at("product", "variants")
	variants, _ := found.([]any)
	meant := false
	for _, v := range variants {
		switch textAt(v, "status") {
		case "vendor backorder":
			meant = true
		case "available", "backordered":
			return false
		}
	}
	return meant
}
