//go:build race

package provider

// Fewer calls fail here, because the race detector makes each life several times as long.
func init() { defaultShare = 30 }
