package scaffold

import (
	"runtime/debug"
	"strings"
)

// SDKVersion returns the version of the Runtime SDK in this binary; empty if it was built from a working tree.
func SDKVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return sdkVersion(info.Deps)
}

// sdkVersion finds the published version of the Runtime SDK among modules.
func sdkVersion(modules []*debug.Module) string {
	for _, m := range modules {
		if m.Path == SDK && m.Replace == nil && strings.HasPrefix(m.Version, "v") && m.Version != "v0.0.0" {
			return m.Version
		}
	}
	return ""
}
