// Package contract tests Capstan against the rules of Cluster API's provider contracts, InfraMachine and InfraCluster, in both contract versions:
// on a real API server, with the provider over an instrumented infrastructure, and with upstream's own reconcilers on the other side where a
// rule speaks of them.
//
// Each test says which rules it covers; package rule keeps the account.
package contract
