package window

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/extension/finding"
)

// Decision says what a moment is.
type Decision struct {
	// Open is true inside of a window, and always if there are no windows.
	Open bool
	// Until is when the window that is open closes, the last of several; zero without windows.
	Until time.Time
	// Next is when the next window opens, in its own time zone; zero if one is open.
	Next time.Time
}

// Decide reports whether one of the windows is open.
func Decide(windows []Window, now time.Time) Decision {
	if len(windows) == 0 {
		return Decision{Open: true}
	}
	var d Decision
	for _, w := range windows {
		local := now.In(w.Zone)
		// A window is at most a week long and opens at least once a week.
		for offset := -8; offset <= 8; offset++ {
			start, is := w.on(local, offset)
			if !is {
				continue
			}
			end := start.Add(w.Duration)
			switch {
			case start.After(now):
				if d.Next.IsZero() || start.Before(d.Next) {
					d.Next = start
				}
			case end.After(now):
				d.Open = true
				if end.After(d.Until) {
					d.Until = end
				}
			}
		}
	}
	if d.Open {
		d.Next = time.Time{}
	}
	return d
}

// on gives when the window opens on the day that is this many days from that of a moment; is is false if it does not
// open on that day.
func (w Window) on(local time.Time, offset int) (start time.Time, is bool) {
	// which weekday a date has does not depend on clocks
	noon := time.Date(local.Year(), local.Month(), local.Day()+offset, 12, 0, 0, 0, time.UTC)
	if !w.Days[noon.Weekday()] {
		return time.Time{}, false
	}
	return clock(noon, w.Hour, w.Minute, w.Zone), true
}

// clock gives the moment at which the clocks of a zone show a time on a date: the first one of two; for a time that
// they leave out, what it would be if they had not been changed yet.
func clock(date time.Time, hour, minute int, zone *time.Location) time.Time {
	wall := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, time.UTC)
	before := wall.Add(-offsetAt(wall.Add(-26*time.Hour), zone)).In(zone)
	after := wall.Add(-offsetAt(wall.Add(26*time.Hour), zone)).In(zone)
	if first, second := shows(before, wall), shows(after, wall); first && second && after.Before(before) ||
		!first && second {
		return after
	}
	return before
}

// offsetAt gives how far the clocks of a zone are ahead of UTC.
func offsetAt(moment time.Time, zone *time.Location) time.Duration {
	_, seconds := moment.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

func shows(moment, wall time.Time) bool {
	return moment.Day() == wall.Day() && moment.Hour() == wall.Hour() && moment.Minute() == wall.Minute()
}

// Reasons of a decision.
const (
	// ReasonNoWindows: there are none, so it is always time.
	ReasonNoWindows = "NoMaintenanceWindows"
	// ReasonOpen: a window is open.
	ReasonOpen = "MaintenanceWindowOpen"
	// ReasonClosed: none is.
	ReasonClosed = "MaintenanceWindowClosed"
)

// Finding returns the decision as people read it. It stays the same until a window opens or closes.
func (d Decision) Finding() finding.Finding {
	switch {
	case d.Open && d.Until.IsZero():
		return finding.Finding{Reason: ReasonNoWindows, Message: "there are no maintenance windows"}
	case d.Open:
		return finding.Finding{Reason: ReasonOpen, Message: "the maintenance window is open until " + text(d.Until)}
	}
	return finding.Finding{
		Reason: ReasonClosed, Message: "outside of the maintenance windows, the next one opens " + text(d.Next),
	}
}

func text(t time.Time) string {
	return fmt.Sprintf("%s (%s)", t.Format("Mon 2006-01-02 15:04 -07:00"), t.Location())
}
