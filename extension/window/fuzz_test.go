package window

import (
	"testing"
	"time"
)

// FuzzParse checks that Parse accepts at most maxWindows windows, each with a time zone and a duration within the
// limits, and that Decide finds out when the next of these windows opens.
func FuzzParse(f *testing.F) {
	f.Add("Mon-Fri 22:00 6h Europe/Berlin; Sat,Sun 00:00 24h UTC")
	f.Add("daily 22:00 90m UTC\nFri-Mon 23:59 1m America/New_York")
	f.Add("Mon 24:00 1h Local")
	f.Fuzz(func(t *testing.T, text string) {
		windows, err := Parse(text)
		if err != nil {
			return
		}
		if len(windows) > maxWindows {
			t.Fatalf("%d windows", len(windows))
		}
		for _, w := range windows {
			if w.Zone == nil || w.Duration < time.Minute || w.Duration > maxDuration || w.Days == [7]bool{} || w.Hour > 23 {
				t.Fatalf("got %+v", w)
			}
		}
		now := time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC) // before a change of clocks in Europe
		if d := Decide(windows, now); len(windows) > 0 && !d.Open && !d.Next.After(now) {
			t.Fatalf("closed at %s, and the next window opens at %s", now, d.Next)
		}
	})
}
