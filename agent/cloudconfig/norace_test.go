//go:build !race

package cloudconfig

// raceFactor is 1: there is no race detector in this build.
const raceFactor = 1
