package dispensarytest

import (
	"fmt"
	"strings"
)

// summarize names in one line the cases that were skipped, and what each wants; ""
// if all were run.
func summarize(test string, verdicts []ReceiverVerdict) string {
	const named = 10 // where more have one reason, it is the receiver that was left out
	skipped := 0
	var reasons []string
	cases := make(map[string][]string)
	for _, v := range verdicts {
		if v.Skipped == "" {
			continue
		}
		skipped++
		if cases[v.Skipped] == nil {
			reasons = append(reasons, v.Skipped)
		}
		cases[v.Skipped] = append(cases[v.Skipped], v.Case)
	}
	if skipped == 0 {
		return ""
	}
	for i, reason := range reasons {
		what := strings.Join(cases[reason], ", ")
		if n := len(cases[reason]); n > named {
			what = fmt.Sprint(n, " cases")
		}
		reasons[i] = fmt.Sprintf("%s (%s)", what, reason)
	}
	return fmt.Sprintf("dispensarytest: CheckReceiver of %s did not run %d of %d cases: %s", test, skipped, len(verdicts), strings.Join(reasons, "; "))
}
