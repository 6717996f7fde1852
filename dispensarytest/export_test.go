package dispensarytest

import (
	"context"
	"strings"
)

// ExamineCase is ExamineReceiver for one case. Those that judge the others run
// after all of them.
func ExamineCase(ctx context.Context, r Receiver, name string) (ReceiverVerdict, error) {
	x, err := newExamination(ctx, r)
	if err != nil {
		return ReceiverVerdict{}, err
	}
	defer x.close()
	for _, chapter := range receiverChapters() {
		for _, c := range chapter.cases {
			if wanted := chapter.name+"/"+c.name == name; wanted || strings.HasPrefix(name, "Always/") {
				if v := x.run(chapter.name, c); wanted {
					return v, nil
				}
			}
		}
	}
	return ReceiverVerdict{Case: "there is no case " + name}, nil
}
