// Package run tests what a person with three computers and a laptop does: the person pastes the enrolment line on each
// computer, creates a cluster that runs pods, and deletes the cluster, so that the hosts are free again. The tests
// require root and Debian: see test/machine.
package run
