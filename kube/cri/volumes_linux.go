package cri

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/capstan-dev/capstan/kube/cri/images"
)

// volumeImages maps the requested references of the images that a container mounts to the layers of these images. The
// kubelet has already pulled the images, with the pull policy and the credentials of the pod.
type volumeImages map[string][]string

// volumeImages finds the images that a container mounts. Its errors begin with ErrImageVolumeMountFailed, because the
// kubelet counts errors with this prefix.
func (s *Server) volumeImages(ctx context.Context, config *runtimeapi.ContainerConfig) (volumeImages, error) {
	volumes := volumeImages{}
	for _, m := range config.Mounts {
		ref := m.GetImage().GetImage()
		if ref == "" {
			continue
		}
		img, err := s.opts.Images.Status(ctx, ref)
		if err != nil {
			err := storeError(err)
			return nil, status.Errorf(status.Code(err), "%s: mounting an image at %s: %s",
				crierrors.ErrImageVolumeMountFailed, m.ContainerPath, status.Convert(err).Message())
		}
		if len(img.Layers) == 0 {
			return nil, status.Errorf(codes.InvalidArgument, "%s: mounting an image at %s: the image has no files",
				crierrors.ErrImageVolumeMountFailed, m.ContainerPath)
		}
		volumes[ref] = img.Layers
	}
	return volumes, nil
}

// mountsImage reports whether a container mounts an image.
func mountsImage(config *runtimeapi.ContainerConfig, img *images.Image) bool {
	return slices.ContainsFunc(config.Mounts, func(m *runtimeapi.Mount) bool {
		ref := m.GetImage().GetImage()
		return ref != "" && (ref == img.ID || slices.Contains(img.Names, ref) || slices.Contains(img.Digests, ref))
	})
}
