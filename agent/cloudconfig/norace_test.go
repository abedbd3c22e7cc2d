//go:build !race

package cloudconfig

// raceFactor is 1: there is no race detector.
const raceFactor = 1
