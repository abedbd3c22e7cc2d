// Package component recognizes the container images of a Kubernetes control plane's components.
//
// On a local host these containers run for real, as processes of a bundle. On a hollow host, all other images are
// hollow: their containers are reported as running without a process. The kubelet (which probes to keep) and the CRI
// server (what to start) must agree on which containers run for real, so both ask this package.
package component

import (
	"slices"
	"strings"
)

// SourceAnnotation is the annotation in which the kubelet records where a pod came from. The CRI server finds it in the
// sandbox's configuration.
const SourceAnnotation = "kubernetes.io/config.source"

// EndsAnnotation lists the containers of a pod, separated by commas, that exit with code 0 when they are hollow: init
// containers, and the containers of pods that are not restarted. The kubelet sets it on its own copy of a pod because
// the CRI doesn't carry restart policies.
const EndsAnnotation = "hollow.capstan.dev/ends"

// names are the base names of the images that run for real, and also the names of their applets.
var names = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// Image is the image of a component.
type Image struct {
	// Name is the component and its applet, such as "kube-apiserver".
	Name string
	// Tag is the image's tag, such as "v1.36.3" (etcd: "3.6.8-0"), empty when it has none.
	Tag string
}

// Match reports whether ref is the image of a component, from any registry and path.
func Match(ref string) (Image, bool) {
	base, tag := split(ref)
	if !slices.Contains(names, base) {
		return Image{}, false
	}
	return Image{Name: base, Tag: tag}, true
}

// split returns the last part of a reference's path and its tag.
func split(ref string) (base, tag string) {
	base, _, _ = strings.Cut(ref[strings.LastIndexByte(ref, '/')+1:], "@")
	base, tag, _ = strings.Cut(base, ":")
	return base, tag
}

// Runs reports whether a container of image ref in a pod with these annotations runs for real. It does if ref is the
// image of a component and the pod comes from the host's own files. An etcd deployed through the API is hollow like any
// other pod, because it would compete for the host's ports.
func Runs(ref string, annotations map[string]string) (Image, bool) {
	if annotations[SourceAnnotation] != "file" {
		return Image{}, false
	}
	return Match(ref)
}

// Names of the images of add-ons that AddOn knows.
const (
	CoreDNS    = "coredns"
	KubeProxy  = "kube-proxy"
	MetricsAPI = "metrics-api"
	Pause      = "pause"
)

// AddOn reports whether ref is the image of an add-on, from any registry and path. A reference by digest does not count
// as one, because it asks for exactly the bytes with that digest.
func AddOn(ref string) (Image, bool) {
	base, tag := split(ref)
	known := []string{CoreDNS, KubeProxy, MetricsAPI, Pause}
	if !slices.Contains(known, base) || tag == "" || strings.Contains(ref, "@") {
		return Image{}, false
	}
	return Image{Name: base, Tag: tag}, true
}

// others are images that kubeadm pulls in addition to those of components.
var others = []string{Pause, KubeProxy, CoreDNS}

// Bundled reports whether an image is one that kubeadm pulls before it starts anything. Such images need no registry:
// components come from the bundle, and the replacements of the other images are looked up when pods use them.
func Bundled(ref string) bool {
	base, _ := split(ref)
	return slices.Contains(names, base) || slices.Contains(others, base)
}
