// Package window is the part of the extension that holds upgrades outside of maintenance windows.
//
// [New] makes the part. [Parse] and [Decide] only compute: [Parse] reads windows as people write them, [Decide] says
// whether one is open at a moment, and if not, when the next one opens.
//
// A window is written as days, start, duration and time zone:
//
//	Sat,Sun 22:00 6h Europe/Berlin
//	daily 01:30 90m UTC; Mon-Fri 12:00 30m America/New_York
//
// A window begins at its start by the clocks of its time zone and lasts its duration, also over midnight and over a
// change of the clocks: 6 h are 6 h. A start that the clocks leave out in spring is moved by as much as they are put
// forward (02:30 becomes 03:30); of two that they show in autumn the first one counts. Time zones are in the program:
// it does not matter which ones the machine has.
package window
