//go:build goexperiment.jsonv2 && go1.27

package dispensary_test

import (
	"encoding/json/v2"
	"io"
)

func floorDecode(from io.Reader, into any) error { return json.UnmarshalRead(from, into) }
