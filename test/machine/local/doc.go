// Package local tests local hosts on a virtual machine, which has its own kernel and cgroups of version 2.
package local
