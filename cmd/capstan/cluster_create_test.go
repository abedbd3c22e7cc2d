package main

import (
	"strings"
	"testing"

	hints "github.com/capstan-dev/capstan/internal/hint"
)

func TestValidate(t *testing.T) {
	good := clusterRequest{name: "demo", controlPlane: 1, workers: 2}
	for name, c := range map[string]struct {
		change func(*clusterRequest)
		want   string // part of the error; empty: none
	}{
		"the default is fine":             {func(*clusterRequest) {}, ""},
		"no workers are fine":             {func(r *clusterRequest) { r.workers = 0 }, ""},
		"high availability is fine":       {func(r *clusterRequest) { r.controlPlane = 3 }, ""},
		"an upper-case name":              {func(r *clusterRequest) { r.name = "Demo" }, `"Demo" does not work`},
		"a name that starts with a digit": {func(r *clusterRequest) { r.name = "1demo" }, "does not work"},
		"an empty name":                   {func(r *clusterRequest) { r.name = "" }, "does not work"},
		"a name of 41 characters":         {func(r *clusterRequest) { r.name = strings.Repeat("a", 41) }, "at most 40"},
		"a name of 40 characters is fine": {func(r *clusterRequest) { r.name = strings.Repeat("a", 40) }, ""},
		"no control plane":                {func(r *clusterRequest) { r.controlPlane = 0 }, "needs a control plane"},
		"an even control plane":           {func(r *clusterRequest) { r.controlPlane = 2 }, "odd number"},
		"negative workers":                {func(r *clusterRequest) { r.workers = -1 }, "is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			c.change(&r)
			err := r.validate()
			if c.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if hints.Of(err) == "" {
				t.Errorf("error %v has no hint", err)
			}
		})
	}
}
