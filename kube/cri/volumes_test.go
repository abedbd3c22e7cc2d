//go:build linux

package cri

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/images"
)

// TestMountsImage checks which references in a container's mounts refer to an image.
func TestMountsImage(t *testing.T) {
	img := &images.Image{ID: "sha256:1", Names: []string{"a:1"}, Digests: []string{"a@sha256:2"}}
	for ref, want := range map[string]bool{"sha256:1": true, "a:1": true, "a@sha256:2": true, "a:2": false, "": false} {
		config := &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{
			{HostPath: "/h"}, {Image: &runtimeapi.ImageSpec{Image: ref}},
		}}
		if got := mountsImage(config, img); got != want {
			t.Errorf("whether a mount of %q is a mount of the image: %t, want %t", ref, got, want)
		}
	}
}
