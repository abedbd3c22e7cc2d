// Package seal encrypts confidential data in the plane's etcd: Secrets, and the kinds of Cluster API's kubeadm
// providers, which can hold join tokens, passwords and files.
//
// The running API server encrypts with the key that a [Ring] names, in the format of Kubernetes' provider "secretbox".
// [Rewrite] encrypts what is already in etcd: data of a plane that did not encrypt yet, or that was encrypted with a
// key that is being replaced. Rewrite accesses etcd itself, before the API server starts. So the API server only ever
// needs one key and never reads unencrypted data.
//
// [Request] requests a rotation by writing a file. The next start of the plane adds a key, rewrites everything with it
// and drops the old one. Each step is saved before the next one begins, and each can be repeated: if the plane is
// killed in between, its next start continues.
package seal
