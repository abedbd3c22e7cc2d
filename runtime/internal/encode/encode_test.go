package encode

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// same compares this package with encoding/json.
func same(t *testing.T, object any) {
	t.Helper()
	want, wantErr := json.Marshal(object)
	got, err := Append(nil, object)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%T: error is %v, that of encoding/json %v", object, err, wantErr)
	}
	if err == nil && string(got) != string(want) {
		t.Fatalf("%T is\n%s\nencoding/json gives\n%s", object, got, want)
	}
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.7).NumElements(0, 2).MaxDepth(9).Funcs(
		func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"kind": "X", "a": [1, "<"]}`) },
		func(at *metav1.Time, c randfill.Continue) { at.Time = time.Unix(int64(c.Uint32()), 0) },
		func(n *intstr.IntOrString, c randfill.Continue) {
			if *n = intstr.FromInt32(c.Int31()); c.Bool() {
				*n = intstr.FromString(c.String(9))
			}
		},
		func(fields *metav1.FieldsV1, _ randfill.Continue) { fields.SetRawBytes([]byte(`{}`)) },
	)
}

func TestEveryHookIsEncodedAsEver(t *testing.T) {
	for _, d := range hook.ClusterAPI().All() {
		t.Run(d.ID.Name, func(t *testing.T) {
			for seed := range 40 {
				request, response := d.NewRequest(), d.NewResponse()
				if seed > 0 { // the first is empty
					filler(int64(seed)).Fill(request)
					filler(int64(seed)).Fill(response)
				}
				// What can't be encoded at all, such as invalid raw JSON, does not matter here.
				if _, err := json.Marshal(request); err == nil {
					same(t, request)
				}
				if _, err := json.Marshal(response); err == nil {
					same(t, response)
				}
			}
		})
	}
}

type inner struct {
	A string `json:"a"`
	B int
}

type named struct {
	C string `json:"c,omitempty"`
}

type zero struct{ N int }

func (z zero) IsZero() bool { return z.N == 7 }

type pointerZero struct{ N int }

func (z *pointerZero) IsZero() bool { return z.N == 7 }

type self struct{ text string }

func (s self) MarshalJSON() ([]byte, error) { return json.Marshal("self " + s.text) }

type pointerSelf struct{ text string }

func (s *pointerSelf) MarshalText() ([]byte, error) { return []byte("text " + s.text), nil }

type fails struct{}

func (fails) MarshalJSON() ([]byte, error) { return nil, fmt.Errorf("no") }

type tree struct {
	Name     string           `json:"name"`
	Children []tree           `json:"children,omitempty"`
	Next     *tree            `json:"next"`
	ByName   map[string]*tree `json:"byName,omitempty"`
}

type twice struct {
	inner
	A string `json:"a"`
}

type key string

type odd struct {
	inner
	Named named `json:"named"`
	//lint:ignore U1000 fields that are not exported are not encoded
	named   string
	Skipped string `json:"-"`
	//lint:ignore SA5008 encoding/json takes this for the name "-"
	Dash    string `json:"-,"`
	NoTag   string
	Quoted  int           `json:"quoted,string"`
	Float   float64       `json:"float"`
	Any     any           `json:"any"`
	Bytes   []byte        `json:"bytes"`
	None    []byte        `json:"none"`
	Empty   []string      `json:"empty,omitempty"`
	Nil     []string      `json:"nil"`
	Array   [2]bool       `json:"array"`
	Number  uint8         `json:"number,omitempty"`
	Zero    zero          `json:"zero,omitzero"`
	Seven   zero          `json:"seven,omitzero"`
	ZeroP   pointerZero   `json:"zeroP,omitzero"`
	SevenP  *pointerZero  `json:"sevenP,omitzero"`
	Plain   named         `json:"plain,omitzero"`
	Self    self          `json:"self"`
	SelfP   *self         `json:"selfP"`
	NilSelf *self         `json:"nilSelf"`
	Text    pointerSelf   `json:"text"`
	Texts   []pointerSelf `json:"texts"`
	Map     map[key]string
	Numbers map[int]string
	Struct  map[string]inner `json:"struct,omitempty"`
	Long    time.Duration    `json:"long"`
	Tree    tree             `json:"tree"`
	Twice   twice            `json:"twice"`
	Raw     json.RawMessage  `json:"raw"`
	Func    func()           `json:"-"`
}

func TestOddTypes(t *testing.T) {
	one := int64(1)
	for _, object := range []any{
		&odd{}, &inner{}, &named{}, &one, &twice{A: "x"}, &tree{},
		&odd{
			inner: inner{A: "a", B: -3}, Named: named{"<c>"}, Skipped: "s", Dash: "d", NoTag: "ä", Quoted: 5, Float: 1e30,
			Any: map[string]any{"z": 1, "a": nil}, Bytes: []byte("bytes"), Empty: []string{}, Nil: []string{"x", "\x00"},
			Number: 255,
			Zero:   zero{1}, Seven: zero{7}, ZeroP: pointerZero{7}, SevenP: &pointerZero{7}, Self: self{"x"}, SelfP: &self{"y"},
			Text: pointerSelf{"z"}, Texts: []pointerSelf{{"1"}, {"2"}}, Map: map[key]string{"b": "1", "a": "2"},
			Numbers: map[int]string{2: "x", 10: "y"},
			Struct:  map[string]inner{"k": {A: "v"}}, Long: time.Hour, Raw: json.RawMessage(` {"a" : 1} `),
			Tree: tree{Name: "root", Children: []tree{{Name: "leaf"}}, Next: &tree{}, ByName: map[string]*tree{"x": nil}},
		},
		&struct{ F fails }{}, &struct{ C chan int }{}, &struct{ F float64 }{math.NaN()},
		&struct{ M map[string]string }{map[string]string{"<": "\xff", "a": ""}},
		&struct {
			*inner
			X int
		}{&inner{}, 1},
	} {
		same(t, object)
	}
}

func TestOnlyPointers(t *testing.T) {
	for _, object := range []any{nil, 1, inner{}, (*inner)(nil)} {
		if _, err := Append(nil, object); err == nil {
			t.Errorf("a %T was encoded", object)
		}
	}
}

func TestManyAtOnceFindTheSameEncoder(t *testing.T) {
	type fresh struct { // not yet known to the package
		Tree []tree
		Next *fresh
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() { same(t, &fresh{Tree: []tree{{Name: "x"}}, Next: &fresh{}}) })
	}
	group.Wait()
}

func FuzzTexts(f *testing.F) {
	for _, text := range []string{"", "plain", "\"", "\\", "<>&", "\u2028", "\xff\xfe", "ä€😀", "\x7f\x00\x1f",
		strings.Repeat("x", 100)} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		same(t, &struct {
			M map[string]string `json:"m"`
			V string            `json:"v,omitempty"`
		}{map[string]string{key: value}, value})
	})
}
