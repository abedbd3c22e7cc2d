package window

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		days string // days of the first window, abbreviated
		n    int
		err  string
	}{
		"an empty text":            {"", "", 0, ""},
		"days by name":             {"Sat,Sun 22:00 6h Europe/Berlin", "Sun Sat", 1, ""},
		"a range":                  {"Mon-Fri 22:00 6h UTC", "Mon Tue Wed Thu Fri", 1, ""},
		"a range over the weekend": {"Fri-Mon 22:00 6h UTC", "Sun Mon Fri Sat", 1, ""},
		"a range and a day":        {"mon-tue,SAT 22:00 6h UTC", "Mon Tue Sat", 1, ""},
		"every day":                {"daily 22:00 6h UTC", "Sun Mon Tue Wed Thu Fri Sat", 1, ""},
		"several, with an empty one and lines": {"daily 22:00 6h UTC;; Sat 9:00 1h UTC\nSun 09:00 1h UTC",
			"Sun Mon Tue Wed Thu Fri Sat", 3, ""},
		"a part is missing": {"daily 22:00 6h", "", 0,
			`"daily 22:00 6h" has 3 parts instead of four: days, start, duration and time zone`},
		"a day that does not exist":       {"Sam 22:00 6h UTC", "", 0, `"Sam" is not a list of days`},
		"a range without an end":          {"Sat- 22:00 6h UTC", "", 0, `"Sat-" is not a list of days`},
		"a start at 24:00":                {"daily 24:00 6h UTC", "", 0, `start "24:00" is not a time of day`},
		"an invalid duration":             {"daily 22:00 six UTC", "", 0, `duration "six" is not between`},
		"a duration too short":            {"daily 22:00 59s UTC", "", 0, `duration "59s" is not between 1m and 168h`},
		"a duration above a week":         {"daily 22:00 169h UTC", "", 0, `duration "169h" is not between`},
		"a negative duration":             {"daily 22:00 -1h UTC", "", 0, `duration "-1h" is not between`},
		"a time zone that does not exist": {"daily 22:00 6h Berlin", "", 0, `time zone "Berlin" is not known`},
		"the zone of the machine":         {"daily 22:00 6h Local", "", 0, `time zone "Local" differs from machine`},
		"too many windows":                {strings.Repeat("daily 22:00 6h UTC;", 51), "", 0, "more than 50 windows"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.text)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error is %v, want %q", err, c.err)
			}
			if len(got) != c.n {
				t.Fatalf("got %d windows, want %d", len(got), c.n)
			}
			var begins []string
			for d := range days {
				if len(got) > 0 && got[0].Days[d] {
					begins = append(begins, days[d])
				}
			}
			if strings.Join(begins, " ") != c.days {
				t.Errorf("begins on %v, want %s", begins, c.days)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		windows, now, want string
	}{
		"no windows": {"", "2026-11-21T12:00:00Z", "there are no maintenance windows"},
		"before a window": {"daily 22:00 2h UTC", "2026-11-21T21:59:59Z",
			"outside the maintenance windows, the next one opens Sat 2026-11-21 22:00 +00:00 (UTC)"},
		"the first moment of a window belongs to it": {"daily 22:00 2h UTC", "2026-11-21T22:00:00Z",
			"the maintenance window is open until Sun 2026-11-22 00:00 +00:00 (UTC)"},
		"the moment at which a window closes is outside": {"daily 22:00 2h UTC", "2026-11-22T00:00:00Z",
			"outside the maintenance windows, the next one opens Sun 2026-11-22 22:00 +00:00 (UTC)"},
		"over midnight": {"Sat 22:00 6h UTC", "2026-11-22T03:59:59Z",
			"the maintenance window is open until Sun 2026-11-22 04:00 +00:00 (UTC)"},
		"over midnight, and closed again": {"Sat 22:00 6h UTC", "2026-11-22T04:00:00Z",
			"outside the maintenance windows, the next one opens Sat 2026-11-28 22:00 +00:00 (UTC)"},
		"the day is that of the window's zone": {"Sun 01:00 1h Asia/Tokyo", "2026-11-21T16:30:00Z",
			"the maintenance window is open until Sun 2026-11-22 02:00 +09:00 (Asia/Tokyo)"},
		"days later": {"Fri 22:00 2h UTC", "2026-11-21T12:00:00Z",
			"outside the maintenance windows, the next one opens Fri 2026-11-27 22:00 +00:00 (UTC)"},
		"the earliest of several": {"Fri 22:00 2h UTC; Sat 13:00 1h Europe/Berlin", "2026-11-21T11:00:00Z",
			"outside the maintenance windows, the next one opens Sat 2026-11-21 13:00 +01:00 (Europe/Berlin)"},
		"two are open, until the last one closes": {"Sat 10:00 4h UTC; Sat 11:00 1h UTC", "2026-11-21T11:30:00Z",
			"the maintenance window is open until Sat 2026-11-21 14:00 +00:00 (UTC)"},
		"a whole week never closes": {"Sat 10:00 168h UTC", "2026-11-21T09:59:59Z",
			"the maintenance window is open until Sat 2026-11-21 10:00 +00:00 (UTC)"},
		"over the end of a year": {"Thu 23:00 2h UTC", "2027-01-01T00:30:00Z",
			"the maintenance window is open until Fri 2027-01-01 01:00 +00:00 (UTC)"},
		"29 February": {"Tue 12:00 1h UTC", "2028-02-28T13:00:00Z",
			"outside the maintenance windows, the next one opens Tue 2028-02-29 12:00 +00:00 (UTC)"},
		"spring: clocks skip an hour of the window": {"Sun 01:00 3h Europe/Berlin", "2026-03-29T02:30:00Z",
			"the maintenance window is open until Sun 2026-03-29 05:00 +02:00 (Europe/Berlin)"},
		"spring: clocks skip the start": {"Sun 02:30 1h Europe/Berlin", "2026-03-29T01:00:00Z",
			"outside the maintenance windows, the next one opens Sun 2026-03-29 03:30 +02:00 (Europe/Berlin)"},
		"spring: the day after is usual": {"daily 02:30 1h Europe/Berlin", "2026-03-29T12:00:00Z",
			"outside the maintenance windows, the next one opens Mon 2026-03-30 02:30 +02:00 (Europe/Berlin)"},
		"autumn: clocks show an hour twice": {"Sun 01:00 3h Europe/Berlin", "2026-10-25T01:59:00Z",
			"the maintenance window is open until Sun 2026-10-25 03:00 +01:00 (Europe/Berlin)"},
		"autumn: the first 02:30 counts": {"Sun 02:30 30m Europe/Berlin", "2026-10-25T00:40:00Z",
			"the maintenance window is open until Sun 2026-10-25 02:00 +01:00 (Europe/Berlin)"},
		"autumn: the second 02:30 does not count": {"Sun 02:30 30m Europe/Berlin", "2026-10-25T01:40:00Z",
			"outside the maintenance windows, the next one opens Sun 2026-11-01 02:30 +01:00 (Europe/Berlin)"},
		"half an hour of summer time": {"Sun 02:10 1h Australia/Lord_Howe", "2026-10-03T15:00:00Z",
			"outside the maintenance windows, the next one opens Sun 2026-10-04 02:40 +11:00 (Australia/Lord_Howe)"},
		"west of Greenwich, in spring": {"Sun 02:30 1h America/New_York", "2026-03-08T06:00:00Z",
			"outside the maintenance windows, the next one opens Sun 2026-03-08 03:30 -04:00 (America/New_York)"},
	} {
		t.Run(name, func(t *testing.T) {
			windows, err := Parse(c.windows)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			got, reason := Decide(windows, now).Finding(), ReasonNoWindows
			switch {
			case strings.HasPrefix(c.want, "outside"):
				reason = ReasonClosed
			case strings.Contains(c.want, "is open"):
				reason = ReasonOpen
			}
			if got.Message != c.want || got.Reason != reason {
				t.Errorf("%+v\nwant %s, %s", got, reason, c.want)
			}
		})
	}
}

// If all windows are closed, Decide says when the next one opens. At that time a window is open, and a second earlier
// none is.
func TestTheNextWindowIsOne(t *testing.T) {
	windows, err := Parse("Sun 02:30 40m Europe/Berlin; Wed 23:50 25m America/New_York; Sat 00:00 10m Australia/Lord_Howe")
	if err != nil {
		t.Fatal(err)
	}
	for now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); now.Year() == 2026; now = now.Add(37 * time.Minute) {
		d := Decide(windows, now)
		if d.Open {
			if after := Decide(windows, d.Until); after.Open && after.Until.Equal(d.Until) {
				t.Fatalf("at %s, Decide says that the window is open until %s, but it is still open then", now, d.Until)
			}
			continue
		}
		if !d.Next.After(now) || d.Next.Sub(now) > 8*24*time.Hour {
			t.Fatalf("at %s, Decide says that the next window opens at %s", now, d.Next)
		}
		if !Decide(windows, d.Next).Open || Decide(windows, d.Next.Add(-time.Second)).Open {
			t.Fatalf("at %s, Decide says that the next window opens at %s, which is wrong", now, d.Next)
		}
	}
}
