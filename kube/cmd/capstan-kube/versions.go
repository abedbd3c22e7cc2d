package main

import (
	"encoding/json"
	"fmt"
	"io"

	etcd "go.etcd.io/etcd/api/v3/version"
	"k8s.io/component-base/version"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app/constants"
)

// versions lists what this bundle consists of, as "capstan-kube versions" prints it (JSON).
type versions struct {
	// Kubernetes is the release of every Kubernetes component in the bundle, such as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Etcd is the version of the etcd applet, such as 3.6.8.
	Etcd string `json:"etcd"`
	// EtcdTag, CoreDNSTag and PauseTag are the image tags that kubeadm of this release writes into manifests.
	EtcdTag    string `json:"etcd-tag"`
	CoreDNSTag string `json:"coredns-tag"`
	PauseTag   string `json:"pause-tag"`
	// Applets are the names that the binary answers to, in alphabetical order.
	Applets []string `json:"applets"`
}

func contents() versions {
	return versions{
		Kubernetes: version.Get().GitVersion,
		Etcd:       etcd.Version,
		EtcdTag:    kubeadm.DefaultEtcdVersion,
		CoreDNSTag: kubeadm.CoreDNSVersion,
		PauseTag:   kubeadm.PauseVersion,
		Applets:    names(),
	}
}

func runVersions(_ []string, stdout, stderr io.Writer) int {
	out, err := json.MarshalIndent(contents(), "", "  ")
	if err != nil {
		fmt.Fprintf(stderr, "%s versions: %v\n", binaryName, err)
		return 1
	}
	fmt.Fprintln(stdout, string(out))
	return 0
}
