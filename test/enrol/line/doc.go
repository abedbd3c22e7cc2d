// Package line tests how a user brings a computer into the inventory of a plane, from beginning to end: with a real
// plane that listens, the plane's enrolment line in a real shell on another computer, and strangers that call the
// plane's address.
package line
