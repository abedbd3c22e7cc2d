//go:build race

package cloudconfig

// raceFactor is how much more memory a program needs with the race detector: five to ten times, according to its
// manual.
const raceFactor = 5
