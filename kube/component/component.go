// Package component knows which container images are components of a Kubernetes control plane.
//
// Those are the containers that really run on a local host, as processes of a bundle; every other image is hollow: its
// container is reported as running without any process behind it. The kubelet (which probes to keep) and the CRI server
// (what to start) must agree on that, so both ask this package.
package component

import (
	"slices"
	"strings"
)

// SourceAnnotation is the annotation in which the kubelet notes where a pod came from; the CRI server finds it in the
// sandbox's configuration.
const SourceAnnotation = "kubernetes.io/config.source"

// EndsAnnotation lists the containers of a pod, separated by commas, that end by themselves with exit code 0 when they
// are hollow: init containers and the containers of pods that are not restarted. The kubelet sets it on its own copy of
// a pod, because the CRI isn't told restart policies.
const EndsAnnotation = "hollow.capstan.dev/ends"

// names are the base names of the images that really run; each is the name of an applet too.
var names = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// Image is a component image.
type Image struct {
	// Name is the component and its applet, such as "kube-apiserver".
	Name string
	// Tag is the image's tag, such as "v1.36.3" (etcd: "3.6.8-0"), empty when it has none.
	Tag string
}

// Match reports whether ref is the image of a component, whichever registry and path it comes from.
func Match(ref string) (Image, bool) {
	base, tag := split(ref)
	if !slices.Contains(names, base) {
		return Image{}, false
	}
	return Image{Name: base, Tag: tag}, true
}

// split returns the last part of a reference's path, and its tag.
func split(ref string) (base, tag string) {
	base, _, _ = strings.Cut(ref[strings.LastIndexByte(ref, '/')+1:], "@")
	base, tag, _ = strings.Cut(base, ":")
	return base, tag
}

// Runs reports whether a container of image ref in a pod with these annotations really runs: it is a component, and the
// host's own files asked for it. An etcd that somebody deploys through the API is as hollow as any other pod, as it
// would fight for the host's ports.
func Runs(ref string, annotations map[string]string) (Image, bool) {
	if annotations[SourceAnnotation] != "file" {
		return Image{}, false
	}
	return Match(ref)
}

// Names of the images of add-ons that AddOn knows.
const (
	CoreDNS   = "coredns"
	KubeProxy = "kube-proxy"
	Pause     = "pause"
)

// AddOn reports whether ref is the image of an add-on, whichever registry and path it comes from. One that is asked for
// by its digest is not: it has to be those bytes.
func AddOn(ref string) (Image, bool) {
	base, tag := split(ref)
	if base != CoreDNS && base != KubeProxy && base != Pause || tag == "" || strings.Contains(ref, "@") {
		return Image{}, false
	}
	return Image{Name: base, Tag: tag}, true
}

// others are images that kubeadm pulls beside those of components.
var others = []string{Pause, KubeProxy, CoreDNS}

// Bundled reports whether an image is one that kubeadm pulls before it starts anything. No registry is asked for these:
// components come from the bundle, and what pods have in their place is found when there are pods.
func Bundled(ref string) bool {
	base, _ := split(ref)
	return slices.Contains(names, base) || slices.Contains(others, base)
}
