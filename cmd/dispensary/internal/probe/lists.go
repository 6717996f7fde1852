package probe

import "strconv"

// listPoints show in lists.
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
		return hidden("there are only "+strconv.Itoa(n)+" products, on one page", a)
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
		return ambiguous("101 products were asked for and came", a)
	case a.meta("total_count") <= 100:
		f.Why = "it is not refused; that 100 is the limit shows only with more products"
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
		return ambiguous("the page beyond the last has brands", a)
	}
	return decide(a, "empty", "not-found")
}

// maxIngredients bounds how many are searched for.
const maxIngredients = 12

// arrayFilters counts what two ingredients find apart and together: to narrow gives at
// most the fewer, to widen at least the more.
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
				return ambiguous("two values find neither what has both nor what has one", last, one, both)
			}
		}
		last, lastID = one, id
	}
	return hidden("no two ingredients were found that tell the variants apart", list)
}

// maxProducts bounds how many products are read one by one.
const maxProducts = 40

// vendorBackorder looks for a product with a variant of that status and none that could
// be bought or is backordered otherwise.
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
	return hidden("no product was found that has only a vendor backorder")
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
