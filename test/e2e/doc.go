// Package e2e runs the built binaries as a user would: real etcd, kube-apiserver, kubeadm and kubelets, on this
// machine.
//
// All tests share one management plane, started by TestMain in a directory of its own, because most of them are not
// about starting it. TestMain stops it, and fails if anything of it is left: a process, a mount, a file.
package e2e
