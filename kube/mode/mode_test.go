package mode

import (
	"maps"
	"testing"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		runtime string
		info    map[string]string
		want    Mode
	}{
		"a server with real pods": {RuntimeName, Mode{IDs: IDsOne, Limits: "cpu"}.Info(),
			Mode{IDs: IDsOne, Limits: "cpu"}},
		"a hollow endpoint": {RuntimeName, Mode{Hollow: true, IDs: IDsAll}.Info(),
			Mode{Hollow: true, IDs: IDsAll}},
		"an older server of ours":        {RuntimeName, nil, Mode{Hollow: true}},
		"another runtime is not hollow":  {"containerd", map[string]string{"config": "{}"}, Mode{}},
		"a value other than true":        {RuntimeName, map[string]string{infoHollow: `"yes"`}, Mode{}},
		"another runtime that is hollow": {"theirs", Mode{Hollow: true}.Info(), Mode{Hollow: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Parse(c.runtime, c.info); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	for name, c := range map[string]struct {
		mode Mode
		want map[string]string
	}{
		"hollow":          {Mode{Hollow: true, IDs: IDsAll, Limits: "cpu"}, map[string]string{HollowLabel: "true"}},
		"real":            {Mode{IDs: IDsOne, Limits: LimitsNone}, map[string]string{IDsLabel: "one", LimitsLabel: "none"}},
		"another runtime": {Mode{}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.mode.Labels(); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestSum(t *testing.T) {
	for text, want := range map[string]uint64{
		"         0          0 4294967295\n": 4294967295, "0 1000 1\n": 1, "0 1000 1\n1 100000 65535\n": 65536, "": 0,
	} {
		if got := sum(text); got != want {
			t.Errorf("%q: %d ids, want %d", text, got, want)
		}
	}
}
