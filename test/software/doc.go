// Package software tests that well-known software works in pods of local hosts, at each level of ids: make
// test-software.
package software
