// Package software tests that well-known software works in pods of local hosts, at each level of user ids. Run it with
// make test-software.
package software
