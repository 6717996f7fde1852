package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// printSpans prints each trace as a tree, in the order in which spans began.
func printSpans(out io.Writer, spans tracetest.SpanStubs) {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	names := map[trace.SpanID]string{}
	for _, span := range spans {
		names[span.SpanContext.SpanID()] = span.Name
	}
	var below func(parent trace.SpanID, depth int)
	below = func(parent trace.SpanID, depth int) {
		for _, span := range spans {
			if span.Parent.SpanID() != parent {
				continue
			}
			fmt.Fprintf(out, "%s%s  %s\n", strings.Repeat("  ", depth), span.Name, line(span.Attributes))
			for _, link := range span.Links {
				fmt.Fprintf(out, "%s  linked to %q\n", strings.Repeat("  ", depth), names[link.SpanContext.SpanID()])
			}
			below(span.SpanContext.SpanID(), depth+1)
		}
	}
	fmt.Fprintln(out, "Spans:")
	below(trace.SpanID{}, 1)
}

// printed are the attributes that are worth a place on the screen.
var printed = []attribute.Key{
	"http.response.status_code", "error.type", "dispensary.retry.reason", "dispensary.oauth.refresh.outcome",
	"dispensary.webhook.outcome", "dispensary.attempt.result",
}

func line(attributes []attribute.KeyValue) string {
	var words []string
	for _, key := range printed {
		for _, a := range attributes {
			if a.Key == key {
				words = append(words, string(a.Key)+"="+a.Value.String())
			}
		}
	}
	return strings.Join(words, " ")
}

// printMetrics prints how often each metric was recorded.
func printMetrics(ctx context.Context, out io.Writer, reader metric.Reader) error {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nMetrics:")
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					fmt.Fprintf(out, "  %s %d times  %s\n", m.Name, point.Count, line(point.Attributes.ToSlice()))
				}
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					fmt.Fprintf(out, "  %s %d  %s\n", m.Name, point.Value, line(point.Attributes.ToSlice()))
				}
			}
		}
	}
	return nil
}
