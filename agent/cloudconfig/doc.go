// Package cloudconfig parses cloud-config, the bootstrap data that Cluster API's kubeadm bootstrap provider writes.
//
// It knows every section that the provider can write: write_files, bootcmd, runcmd, users, ntp, disk_setup, fs_setup
// and mounts, and the template header that lets data refer to values of the host. An unknown section or key is an
// error: a host that silently lacks part of its setup is worse than one that fails with a message.
//
// Parsing changes nothing on the host; package apply does. Errors that may be shown to everybody are faults (package
// fault). They mention a line and a key but never quote the data.
package cloudconfig
