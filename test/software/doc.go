// Package software tests that well-known software works in pods of local hosts, with each number of user ids that a
// local host may have. Each of these numbers is a level. Run the tests with make test-software.
package software
