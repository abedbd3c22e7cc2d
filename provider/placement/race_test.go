//go:build race

package placement

// With the race detector, TestIndexAnswersLikeAScan takes ten times as long, and has one goroutine. make test runs it
// without the race detector, too, with all its cases.
func init() { seeds = 20 }
