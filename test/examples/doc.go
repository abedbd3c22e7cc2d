// Package examples builds the programs in examples/, each of which is a separate module, and runs them with the built
// binaries.
package examples
