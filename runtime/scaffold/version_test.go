package scaffold

import (
	"runtime/debug"
	"testing"
)

func TestSDKVersion(t *testing.T) {
	for name, c := range map[string]struct {
		module debug.Module
		want   string
	}{
		"a published version":       {debug.Module{Path: SDK, Version: "v1.2.3"}, "v1.2.3"},
		"a working tree":            {debug.Module{Path: SDK, Version: "(devel)"}, ""},
		"the placeholder version":   {debug.Module{Path: SDK, Version: "v0.0.0"}, ""},
		"a module that is replaced": {debug.Module{Path: SDK, Version: "v1.2.3", Replace: &debug.Module{}}, ""},
		"another module":            {debug.Module{Path: "example.org/runtime", Version: "v1.2.3"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			modules := []*debug.Module{{Path: "example.org/a", Version: "v9.9.9"}, &c.module}
			if got := sdkVersion(modules); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
