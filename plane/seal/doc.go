// Package seal encrypts what is secret in the plane's etcd: Secrets, and the kinds of Cluster API's kubeadm providers,
// which can hold join tokens, passwords and files.
//
// The API server does it while it works, with the key that a [Ring] names, in the format of Kubernetes' provider
// "secretbox". [Rewrite] does it for what is in etcd already: data of a plane that did not encrypt yet, or that was
// encrypted with a key that is being replaced. It works on etcd itself before the API server starts, so the API server
// always has one key only, and never reads what is not encrypted.
//
// A rotation is a request, a file that [Request] writes. The plane's next start adds a key, rewrites everything with it
// and drops the old one. Each step is saved before the next one begins, and each can be made again: a plane that is
// killed in between goes on at its next start.
package seal
