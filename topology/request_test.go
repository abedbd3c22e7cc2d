package topology

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/hint"
)

func TestValidate(t *testing.T) {
	good := Request{Name: "demo", ControlPlane: 1, Workers: 2}
	for name, c := range map[string]struct {
		change func(*Request)
		want   string // part of the error; empty: none
	}{
		"the default is fine":             {func(*Request) {}, ""},
		"no workers are fine":             {func(r *Request) { r.Workers = 0 }, ""},
		"high availability is fine":       {func(r *Request) { r.ControlPlane = 3 }, ""},
		"an upper-case name":              {func(r *Request) { r.Name = "Demo" }, `"Demo" does not work`},
		"a name that starts with a digit": {func(r *Request) { r.Name = "1demo" }, "does not work"},
		"an empty name":                   {func(r *Request) { r.Name = "" }, "does not work"},
		"a name of 41 characters":         {func(r *Request) { r.Name = strings.Repeat("a", 41) }, "at most 40"},
		"a name of 40 characters is fine": {func(r *Request) { r.Name = strings.Repeat("a", 40) }, ""},
		"no control plane":                {func(r *Request) { r.ControlPlane = 0 }, "needs a control plane"},
		"an even control plane":           {func(r *Request) { r.ControlPlane = 2 }, "odd number"},
		"negative workers":                {func(r *Request) { r.Workers = -1 }, "is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			c.change(&r)
			err := r.Validate()
			if c.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if hint.Of(err) == "" {
				t.Errorf("error %v has no hint", err)
			}
		})
	}
}

func TestAsksForHollow(t *testing.T) {
	for pods, want := range map[string]bool{"": false, PodsReal: false, PodsHollow: true} {
		if got := AsksForHollow(Request{Name: "demo", Pods: pods}.Cluster()); got != want {
			t.Errorf("pods %q: %t", pods, got)
		}
	}
}
