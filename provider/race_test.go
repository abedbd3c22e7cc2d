//go:build race

package provider

// defaultShare: the race detector makes each life several times as long.
func init() { defaultShare = 30 }
