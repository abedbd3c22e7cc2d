// Package contract tests Capstan against the rules of Cluster API's provider contracts, InfraMachine and InfraCluster,
// in both contract versions: on a real API server, with the provider over an instrumented infrastructure, and with
// upstream's own reconcilers on the other side where a rule speaks of them.
//
// A test records each rule at the line that asserts it; hack/coverage keeps the account. What can be read off the
// definitions is tested in package definitions.
package contract
