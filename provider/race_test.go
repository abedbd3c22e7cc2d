//go:build race

package provider

// With the race detector, these tests take several times as long. One goroutine does nearly all of their work, so a few
// runs are enough to find races. make test runs the tests without the race detector, too, with all their cases.
func init() { defaultShare, schedules = 100, 4 }
