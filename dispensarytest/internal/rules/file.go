package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

// fileVersion is the version of the file of behaviors, which package probe writes.
const fileVersion = 1

// ChooseFile applies the behaviors in a file. If the file is invalid, it changes nothing:
//
//	{"version": 1, "behaviors": ["probe=before-each"]}
func (r *Set) ChooseFile(content []byte) error {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return fmt.Errorf("not a file of behaviors: %w", err)
	}
	switch {
	case head.Version == nil:
		return errors.New("not a file of behaviors: it has no version")
	case *head.Version != fileVersion:
		return fmt.Errorf("it has version %d; this program reads version %d", *head.Version, fileVersion)
	}
	var file struct {
		Version   int      `json:"version"`
		Behaviors []string `json:"behaviors"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("not a file of behaviors: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a file of behaviors: it has data after the object")
	}
	if file.Behaviors == nil {
		return errors.New("not a file of behaviors: it has no behaviors")
	}
	return r.chooseAll(file.Behaviors)
}

func (r *Set) chooseAll(behaviors []string) error {
	changed, named := *r, make(map[string]bool)
	for i, text := range behaviors {
		point, _, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return fmt.Errorf("behaviors[%d]: %q is not of the form point=variant", i, text)
		case named[point]:
			return fmt.Errorf("behaviors[%d]: %s is set twice", i, point)
		}
		named[point] = true
		if err := changed.Choose(behavior.Variant(text)); err != nil {
			return fmt.Errorf("behaviors[%d]: %s", i, strings.TrimPrefix(err.Error(), "dispensarytest: "))
		}
	}
	*r = changed
	return nil
}
