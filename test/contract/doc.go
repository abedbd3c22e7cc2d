// Package contract tests Capstan against the rules of Cluster API's provider contracts, InfraMachine and InfraCluster,
// in both contract versions: on a real API server, with the provider on an instrumented infrastructure, and with
// upstream's own reconcilers where a rule is about them.
//
// A test records each rule at the line that asserts it; hack/coverage evaluates the records. Tests that need only the
// definitions are in test/contract/definitions.
package contract
