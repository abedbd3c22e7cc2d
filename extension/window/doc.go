// Package window is the part of the extension that holds back upgrades outside of maintenance windows.
//
// [New] returns the part. [Parse] and [Decide] are pure: [Parse] reads windows in text form, and [Decide] reports
// whether one is open at a moment and, if not, when the next one opens.
//
// A window is written as days, start, duration and time zone:
//
//	Sat,Sun 22:00 6h Europe/Berlin
//	daily 01:30 90m UTC; Mon-Fri 12:00 30m America/New_York
//
// A window starts at its start time in its time zone and lasts its duration, even past midnight and across clock
// changes: 6 h are 6 h. If clocks skip the start time in spring, the start moves by the same amount (02:30 becomes
// 03:30). If they show it twice in autumn, the first time counts. The program contains the time zone database and does
// not use the machine's.
package window
