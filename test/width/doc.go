// Package width checks that sources and pages fit into an editor: lines of at most 120 columns, files of at most 450
// lines.
package width
