package resource

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Period is the time from Since until Before. A zero time means no bound. [Filter] filters a list by it,
// because the platform filters by day only.
//
// As a query field it requests the days of the period and one more day, because the platform
// does not state the time zone of its days. [Filter] removes the other items. The query
// contains one comparison only: if both bounds are set, it requests the days from Since on.
//
// Assumption: the comparisons that the API documents for the time of orders work for all
// lists. API section: "Orders" (completed_at), "Events" (created_at), "Webhook deliveries"
// (attempted_at).
type Period struct{ Since, Before time.Time }

// EncodeValues adds the days to a query. It returns an [api.ArgumentError] if a day is outside
// the years 1 to 9999 or the period ends before it begins.
func (p Period) EncodeValues(key string, values *url.Values) error {
	sign, day := ">", p.Since.UTC().AddDate(0, 0, -2)
	switch {
	case p == Period{}:
		return nil
	case p.Since.IsZero():
		sign, day = "<", p.Before.UTC().AddDate(0, 0, 2)
	case !p.Before.IsZero() && p.Before.Before(p.Since):
		return &api.ArgumentError{Field: key, Reason: "ends before it begins"}
	}
	date := api.DateOf(day)
	if date.IsZero() || date.Validate() != nil {
		return &api.ArgumentError{Field: key, Reason: "is outside the years 1 to 9999"}
	}
	values.Set(key, sign+date.String())
	return nil
}

// Contains reports whether t is in the period. It returns true for the zero time, because the
// platform or a decoder left the time out.
func (p Period) Contains(t time.Time) bool {
	return t.IsZero() || !t.Before(p.Since) && (p.Before.IsZero() || t.Before(p.Before))
}

// Filter returns list reduced to the items whose time is in the period. The limit of the list
// counts only these items.
func Filter[T any](list *api.List[T], p Period, at func(T) time.Time) *api.List[T] {
	if p == (Period{}) {
		return list
	}
	return api.NewList(func(ctx context.Context, s api.ListSettings) iter.Seq2[*api.Page[T], error] {
		days := list.StartAt(s.StartAt).PageSize(s.PageSize).Limit(min(s.Limit, 0)).Prefetch(s.Prefetch).OnDrift(s.OnDrift)
		return func(yield func(*api.Page[T], error) bool) {
			Pages(days.Pages(ctx), s.Limit, func(items []T) (kept []T, last bool) {
				return slices.DeleteFunc(items, func(item T) bool { return !p.Contains(at(item)) }), false
			}, yield)
		}
	})
}

// Pages yields each page with the items that keep returns, up to limit items in total. 0 means
// no limit. It stops after the page for which keep returns last.
func Pages[T any](pages iter.Seq2[*api.Page[T], error], limit int, keep func([]T) (kept []T, last bool), yield func(*api.Page[T], error) bool) {
	left := limit
	for page, err := range pages {
		if err != nil {
			yield(nil, err)
			return
		}
		var last bool
		page.Items, last = keep(page.Items)
		if limit > 0 {
			page.Items = page.Items[:min(left, len(page.Items))]
			left -= len(page.Items)
			last = last || left == 0
		}
		if !yield(page, nil) || last {
			return
		}
	}
}
