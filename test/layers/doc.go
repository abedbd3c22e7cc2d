// Package layers tests who may import whom: the table at the end of docs/architecture.md.
package layers
