// Package lint reads the hooks of Go packages from their source, and says what a change of them breaks: for those who
// publish hooks, compared with a lock file or with another release ([Run]); for those who upgrade Cluster API, for
// the extensions that they have installed ([Preflight]).
//
// Nothing is compiled. The go command must be installed; it downloads modules that are missing. What is a break says
// package rules.
package lint
