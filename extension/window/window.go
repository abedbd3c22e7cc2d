package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // so that decisions don't depend on the time zones in the image
)

const (
	// maxWindows is the maximum number of windows in one setting or annotation.
	maxWindows = 50
	// maxDuration is a week: a longer window would never close.
	maxDuration = 7 * 24 * time.Hour
)

// Allowed describes what [Parse] accepts; it is written to follow the words "must be".
const Allowed = `windows, separated by ";", each as days, start, duration and time zone, such as "Sat,Sun 22:00 6h Europe/Berlin" or "daily 01:00 3h UTC"`

// Window is a weekly maintenance window.
type Window struct {
	// Days are the weekdays on which the window starts.
	Days [7]bool
	// Hour and Minute are the start time in Zone.
	Hour, Minute int
	// Duration is how long the window is open.
	Duration time.Duration
	// Zone is the time zone.
	Zone *time.Location
}

var days = [7]string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// Parse reads windows. An empty text contains none.
func Parse(text string) ([]Window, error) {
	var windows []Window
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if strings.TrimSpace(one) == "" {
			continue
		}
		w, err := parse(one)
		if err != nil {
			return nil, err
		}
		if windows = append(windows, w); len(windows) > maxWindows {
			return nil, fmt.Errorf("there are more than %d windows", maxWindows)
		}
	}
	return windows, nil
}

func parse(text string) (w Window, err error) {
	fields := strings.Fields(text)
	if len(fields) != 4 {
		return w, fmt.Errorf("%q has %d parts instead of four: days, start, duration and time zone", strings.TrimSpace(text),
			len(fields))
	}
	if w.Days, err = parseDays(fields[0]); err != nil {
		return w, err
	}
	start, err := time.Parse("15:04", fields[1])
	if err != nil {
		return w, fmt.Errorf("start %q is not a time of day, such as 22:00", fields[1])
	}
	w.Hour, w.Minute = start.Hour(), start.Minute()
	if w.Duration, err = time.ParseDuration(fields[2]); err != nil || w.Duration < time.Minute ||
		w.Duration > maxDuration {
		return w, fmt.Errorf("duration %q is not between 1m and %.0fh, such as 90m or 6h", fields[2], maxDuration.Hours())
	}
	if fields[3] == "Local" {
		return w, errors.New(`time zone "Local" differs from machine to machine: name it, such as Europe/Berlin or UTC`)
	}
	if w.Zone, err = time.LoadLocation(fields[3]); err != nil {
		return w, fmt.Errorf("time zone %q is not known: write it like Europe/Berlin or UTC", fields[3])
	}
	return w, nil
}

// parseDays reads "daily", or days and ranges of days, as their first three letters separated by commas. A range may
// span the weekend.
func parseDays(text string) (set [7]bool, err error) {
	if strings.EqualFold(text, "daily") {
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, last := day(from), day(to)
		if first < 0 || last < 0 {
			return set, fmt.Errorf("%q is not a list of days: write daily, or days and ranges such as Sat,Sun or Mon-Fri", text)
		}
		for d := first; ; d = (d + 1) % 7 {
			set[d] = true
			if d == last {
				break
			}
		}
	}
	return set, nil
}

func day(text string) int {
	for i, name := range days {
		if strings.EqualFold(text, name) {
			return i
		}
	}
	return -1
}
