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
	for _, section := range sections() {
		for _, tc := range section.cases {
			if wanted := section.name+"/"+tc.name == name; wanted || strings.HasPrefix(name, "Always/") {
				if v := c.run(section.name, tc); wanted {
					return v, nil
				}
			}
		}
	}
	return Verdict{Case: "there is no case " + name}, nil
}
