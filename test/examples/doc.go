// Package examples builds the programs in examples/, each a module of its own, and runs them with the built binaries.
package examples
