// Package seal encrypts confidential data in the plane's etcd: Secrets, and the kinds of Cluster API's kubeadm
// providers, which can hold join tokens, passwords and files.
//
// The running API server encrypts with the first key of a [Ring], in the format of Kubernetes' provider "secretbox".
// [Ring.Rewrite] encrypts what is already in etcd: data from before the plane encrypted anything, or data that is
// encrypted with a key that is being replaced. Rewrite accesses etcd directly, before the API server starts. So the API
// server only ever needs one key and never reads unencrypted data.
//
// [Request] requests a rotation by writing a file. The next start of the plane adds a key, encrypts everything with the
// new key, and drops the old key. Each step is saved before the next one begins, and each can be repeated: if the plane
// is killed in between, its next start continues.
package seal
