//go:build race

package cloudconfig

// raceFactor is how much more memory a program needs with the race detector: five to ten times, as its manual says.
const raceFactor = 5
