// Package software tests that well-known software works in pods of local hosts, at each level of user ids: make
// test-software.
package software
