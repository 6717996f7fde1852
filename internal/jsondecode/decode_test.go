package jsondecode_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
)

// record has all shapes of responses, including those decoded by encoding/json.
type record struct {
	ID       string             `json:"id"`
	Name     name               `json:"name"`
	Count    int                `json:"count"`
	Small    int8               `json:"small"`
	Ratio    float64            `json:"ratio"`
	Sure     bool               `json:"sure"`
	Total    api.Decimal        `json:"total"`
	Amount   string             `json:"amount" alias:"recommended_amount"`
	Number   json.Number        `json:"number"`
	When     api.Timestamp      `json:"when"`
	Child    *record            `json:"child"`
	Children []record           `json:"children"`
	Pointers []*record          `json:"pointers"`
	Words    []string           `json:"words"`
	Raw      json.RawMessage    `json:"raw"`
	Any      any                `json:"any"`
	Map      map[string]record  `json:"map"`
	Bytes    []byte             `json:"bytes"`
	Optional api.Optional[int]  `json:"optional"`
	Inner    struct{ A, B int } `json:"inner"`
	Status   string             `json:"status"`
	Key      string             `json:"key"`
	Ignored  string             `json:"-"`
	Untagged string
	//lint:ignore U1000 encoding/json ignores it, and so must jsondecode
	unexposed string
}

type name string

type embedding struct {
	record
	Own string `json:"own"`
}

var texts = []string{
	`{}`, ` { } `, `null`, `[]`, `"x"`, `1`, ``, `{`, `{"id":}`, `{"id":"a"`, `{"id":"a"} x`,
	`{"id":"a","name":"b","count":-3,"small":7,"ratio":1.5e2,"sure":true}`,
	`{"sure":false,"ratio":2,"small":127,"count":0,"name":"","id":"\u00e9\n\"\\"}`,
	`{"id":null,"name":null,"count":null,"ratio":null,"sure":null,"total":null,"amount":null,"number":null,"when":null,"inner":null}`,
	`{"child":null,"children":null,"pointers":null,"words":null,"raw":null,"any":null,"map":null,"bytes":null,"optional":null}`,
	`{"child":{"id":"b","child":{"id":"c","children":[]}},"children":[{"id":"1"},{"id":"2","words":["x","","y"]}],"pointers":[null,{"id":"3"}]}`,
	`{"total":"12.50","amount":1.5,"number":"7","when":"2026-03-04","raw":{"a":[1]},"any":{"a":[1,"b"]},"map":{"k":{"id":"m"}},"bytes":"aGk=","optional":3}`,
	`{"count":1.5}`, `{"count":"1"}`, `{"small":128}`, `{"ratio":1e400}`, `{"id":5}`, `{"sure":1}`, `{"children":{}}`, `{"child":[]}`, `{"total":"x"}`,
	`{"ID":"upper","Name":"n","CHILD":{"iD":"mixed"}}`, `{"unknown":{"deep":[1,{"x":null}]},"id":"a"}`,
	`{"id":"a","id":"b","child":{"id":"1"},"child":{"name":"2"},"words":["1","2"],"words":["3"],"inner":{"A":1},"inner":{"B":2}}`,
	`{"\u0069d":"escaped key","Untagged":"u","untagged":"v","-":"x","unexposed":"y"}`,
	"{\"id\":\"bad \xff utf8\",\"name\":\"\xed\xa0\x80\"}", "{\"id\":\"control \x01\"}", `{"id":"kelvin"}`, "{\"\u212aey\":1}",
	// Leniency: values in quotes, other scalars, escapes, values that do not fit.
	`{"count":"10","small":1e2,"ratio":"1.5","sure":"1","id":17,"name":true,"status":-0.10}`,
	`{"count":10.0,"small":"127.0","ratio":"","sure":"","amount":false}`, `{"count":"","sure":"TRUE"}`, `{"sure":"False","count":"1e3"}`,
	`{"count":"\u0031\u0030","sure":"\u0031","ratio":"\u002d1","total":"\u0031.5","when":"2026-03-04T05:06:07\u002B00:00"}`,
	`{"count":"0x10","small":"1e3","ratio":"inf","sure":"yes"}`, `{"count":9007199254740993.0,"ratio":"1_0"}`, `{"count":" 1","ratio":"1e999"}`, `{"count":"9223372036854775808"}`,
	`{"id":{},"name":[],"words":["a",null,1,{},[]],"children":[null,{"id":"1"},5,"x",[],{"id":{}}],"pointers":[null,7,{"count":"x"}],"child":"x"}`,
	`{"children":[{"id":"1","count":3}],"children":[5,{"id":"2"}],"child":{"id":"a"},"child":7,"id":"a","id":{},"words":["1","2","3"],"words":[{},"4"],"words":[]}`,
	`{"map":{"k":{"id":5}},"map":{"k":{"id":"x"}},"any":{},"any":5,"inner":{"A":1},"inner":[]}`,
	`{"amount":"1","recommended_amount":"2"}`, `{"recommended_amount":"2","amount":"1"}`, `{"recommended_amount":"2","amount":""}`, `{"amount":"","Recommended_Amount":2}`, `{"recommended_amount":{},"amount":null}`,
	`{"number":1.50}`, `{"number":"1.50"}`, `{"number":"x"}`, `{"number":"","id":"a"}`, `{"meta":1}`,
	// Names beyond ASCII: encoding/json folds only some of them to ASCII.
	`{"ſtatus":"long s"}`, `{"STATUſ":"long s"}`, `{"\u017ftatus":"escaped long s"}`, `{"\u212aey":"escaped kelvin","child":{"Key":"kelvin"}}`,
	`{"id":"good","İd":"evil"}`, `{"id":"good","ıd":"evil"}`, `{"İd":"dotted"}`, `{"İd":"dotted"}`, `{"é":1,"id":"x","ÉTÉ":{"id":"y"}}`,
	"{\"\xffid\":\"bad utf8\",\"id\":\"x\"}", "{\"id\xc5\":1}", `{"children":[{"ſtatus":"deep"},{"id":"x"}]}`,
	`{"words":["` + strings.Repeat("long ", 40) + `"],"id":"` + strings.Repeat("é", 20) + `"}`,
	`{"children":[` + strings.Repeat(`{"id":"same","name":"same"},`, 30) + `{}]}`,
}

// decode decodes data and expects that all of it fits.
func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	invalid, err := jsondecode.Unmarshal(data, into)
	assert.NoError(t, err)
	assert.Empty(t, invalid)
}

func TestUnmarshalMatchesEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		same[record](t, []byte(text))
		same[*record](t, []byte(text))
		same[[]record](t, []byte("["+text+"]"))
		same[embedding](t, []byte(text))
		same[any](t, []byte(text))
		same[int](t, []byte(text))
	}
}

func TestUnmarshalRequiresPointer(t *testing.T) {
	t.Parallel()
	for _, into := range []any{nil, record{}, (*record)(nil)} {
		_, err := jsondecode.Unmarshal([]byte(`{}`), into)
		assert.Error(t, err)
	}
}

func TestDecodedStringsDoNotShareText(t *testing.T) {
	t.Parallel()
	data := []byte(`{"id":"abc","words":["abc"],"raw":{"a":1}}`)
	var got record
	decode(t, data, &got)
	clear(data)
	assert.Equal(t, "abc", got.ID)
	assert.Equal(t, []string{"abc"}, got.Words)
	assert.JSONEq(t, `{"a":1}`, string(got.Raw))
}

func TestConcurrentDecodersShareRecursivePlan(t *testing.T) {
	t.Parallel()
	type local struct {
		Next *local `json:"next"`
		ID   string `json:"id"`
	}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			var got local
			decode(t, []byte(`{"next":{"next":{"id":"x"}}}`), &got)
			assert.Equal(t, "x", got.Next.Next.ID)
		})
	}
	group.Wait()
}

// Short strings share allocations, and a list allocates its capacity at once. The decoded
// values stay correct, and the memory kept by one string is limited.
func TestUnmarshalAllocatesLittle(t *testing.T) {
	type item struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		URL   string `json:"url"`
		Brand string `json:"brand"`
	}
	type list struct {
		Items []item `json:"items"`
	}
	var want list
	for i := range 100 {
		id := strings.Repeat(string(rune('a'+i%26)), 30) + string(rune('0'+i%10))
		want.Items = append(want.Items, item{id, "Naturélle " + id, "https://assets.example/" + strings.Repeat(id, 3), "Labs™"})
	}
	data, err := json.Marshal(want)
	require.NoError(t, err)
	var got list
	decode(t, data, &got)
	assert.Equal(t, want, got)
	clear(data)
	assert.Equal(t, want, got, "no value refers to the text")
	data, _ = json.Marshal(want)
	assert.LessOrEqual(t, testing.AllocsPerRun(20, func() { _, _ = jsondecode.Unmarshal(data, new(list)) }), 150.0)
	assert.LessOrEqual(t, cap(got.Items), 170, "the capacity exceeds the list only a little")
}
