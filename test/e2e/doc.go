// Package e2e runs the built binaries as a user would: real etcd, kube-apiserver, kubeadm and kubelets, on this
// machine.
//
// All tests share one management plane, started by TestMain in a directory of its own, because starting it is not what
// most of them are about. TestMain ends it, and fails if anything of it is left: a process, a mount, a file.
package e2e
