//go:build !goexperiment.jsonv2 || !go1.27

package dispensary_test

import (
	"encoding/json"
	"io"
)

func floorDecode(from io.Reader, into any) error { return json.NewDecoder(from).Decode(into) }
