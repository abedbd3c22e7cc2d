// Package local tests local hosts on a computer with a kernel of its own, and cgroups of version 2.
package local
