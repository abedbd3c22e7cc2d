// Package interop tests the Runtime SDK with Cluster API's own code.
package interop
