package receivercheck

import (
	"context"
	"strings"
)

// ExamineCase is Examine for one case. Those that review the others run
// after all of them.
func ExamineCase(ctx context.Context, r Target, name string) (Verdict, error) {
	c, err := newChecker(ctx, r)
	if err != nil {
		return Verdict{}, err
	}
	defer c.close()
	for _, tc := range cases() {
		if wanted := tc.name == name; wanted || strings.HasPrefix(name, "Always/") {
			if v := c.run(tc); wanted {
				return v, nil
			}
		}
	}
	return Verdict{Case: "there is no case " + name}, nil
}
