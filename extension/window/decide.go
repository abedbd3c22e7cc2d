package window

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/extension/finding"
)

// Decision describes a moment with respect to maintenance windows.
type Decision struct {
	// Open reports whether a window is open. Without windows it is true.
	Open bool
	// Until is when the open window closes; if several are open, it is when the last of them closes. It is zero if none is
	// open, and if there are no windows.
	Until time.Time
	// Next is when the next window opens, in that window's time zone. It is zero if one is open.
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

// on returns the time at which the window opens on one day: the date of local plus offset days. opens is false if the
// window does not open on that day.
func (w Window) on(local time.Time, offset int) (start time.Time, opens bool) {
	// The weekday of a date does not depend on clocks.
	noon := time.Date(local.Year(), local.Month(), local.Day()+offset, 12, 0, 0, 0, time.UTC)
	if !w.Days[noon.Weekday()] {
		return time.Time{}, false
	}
	return clock(noon, w.Hour, w.Minute, w.Zone), true
}

// clock returns the moment at which clocks in a zone show a time on a date. If they show it twice, it returns the first
// moment. If they skip it, it returns the moment that would have had this time without the change.
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

// offsetAt returns how far a zone is ahead of UTC.
func offsetAt(moment time.Time, zone *time.Location) time.Duration {
	_, seconds := moment.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

func shows(moment, wall time.Time) bool {
	return moment.Day() == wall.Day() && moment.Hour() == wall.Hour() && moment.Minute() == wall.Minute()
}

// Reasons of a decision.
const (
	// ReasonNoWindows means that there are no windows, so upgrades are always allowed.
	ReasonNoWindows = "NoMaintenanceWindows"
	// ReasonOpen means that a window is open.
	ReasonOpen = "MaintenanceWindowOpen"
	// ReasonClosed means that no window is open.
	ReasonClosed = "MaintenanceWindowClosed"
)

// Finding returns the decision in words. The words stay the same until a window opens or closes.
func (d Decision) Finding() finding.Finding {
	switch {
	case d.Open && d.Until.IsZero():
		return finding.Finding{Reason: ReasonNoWindows, Message: "there are no maintenance windows"}
	case d.Open:
		return finding.Finding{Reason: ReasonOpen, Message: "the maintenance window is open until " + text(d.Until)}
	}
	return finding.Finding{
		Reason: ReasonClosed, Message: "outside the maintenance windows, the next one opens " + text(d.Next),
	}
}

func text(t time.Time) string {
	return fmt.Sprintf("%s (%s)", t.Format("Mon 2006-01-02 15:04 -07:00"), t.Location())
}
