// Package cloudconfig reads cloud-config, the bootstrap data that the kubeadm bootstrap provider of Cluster API writes.
//
// It knows every section that the provider can write: write_files, bootcmd, runcmd, users, ntp, disk_setup, fs_setup
// and mounts, and the template header with which data refers to values of the host. A section or key that it does not
// know is an error and not ignored: a host that silently lacks a part of its set-up is worse than one that says so.
//
// Reading changes nothing on the host; package apply does. Errors that may be shown to everybody are faults (package
// fault) which name a line and a key but never quote the data.
package cloudconfig
