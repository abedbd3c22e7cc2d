// Package topology creates and changes clusters with a managed topology: a ClusterClass, a version and numbers of
// machines.
//
// A [Request] describes the cluster. [Create] creates it; [Scale] and [Upgrade] change an existing one. Before they
// write anything, they refuse what could never become a working cluster. Their errors contain advice and name the flags
// of "capstan cluster".
package topology
