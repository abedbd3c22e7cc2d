// Package interop tests the Runtime SDK with what Cluster API itself is built of.
package interop
