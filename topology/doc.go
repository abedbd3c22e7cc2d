// Package topology makes and changes clusters with a managed topology: a ClusterClass, a version, numbers of machines.
//
// A [Request] says what a user asks for; [Create] makes the Cluster, [Scale] and [Upgrade] change one that exists. Each
// refuses, before anything is written, what could never become a cluster. Errors carry advice and name the flags of
// "capstan cluster".
package topology
