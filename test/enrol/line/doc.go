// Package line tests the whole way of a computer into the inventory of a plane, as a user goes it: a real plane that
// listens, the line that it prints in a real shell on another computer, and what strangers find at its address.
package line
