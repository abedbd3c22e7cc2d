package cri

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
	"github.com/capstan-dev/capstan/kube/cri/images"
)

// stored reports whether an image comes from the image store: all but those of components. annotations are the pod's,
// where the kubelet asks for one; kubeadm has none and means the components.
func (s *Server) stored(ref string, annotations map[string]string) bool {
	if s.opts.Images == nil || ref == "" {
		return false
	}
	if _, is := component.Match(ref); is {
		source, known := annotations[component.SourceAnnotation]
		return known && source != "file"
	}
	return s.reference(ref) == ""
}

// fromImage decides whether a container is real, and finds its image then.
func (s *Server) fromImage(ctx context.Context, c *container, spec *runtimeapi.ImageSpec) error {
	s.mu.RLock()
	sb := s.sandboxes[c.Sandbox]
	s.mu.RUnlock()
	if s.opts.Images == nil || sb == nil || !sb.Real {
		return nil
	}
	if _, runs := component.Runs(c.Image, sb.config.Annotations); runs {
		return nil
	}
	img, err := s.opts.Images.Status(ctx, spec.Image)
	if errors.Is(err, images.ErrNotFound) {
		return status.Error(codes.NotFound, err.Error())
	}
	if err != nil {
		return err
	}
	c.Real, c.ImageID, c.StopSignal = true, img.ID, img.Config.Config.StopSignal
	return nil
}

// storedStatus reports an image of the store; one that is not there is no error.
func (s *Server) storedStatus(ctx context.Context, ref string) (*runtimeapi.ImageStatusResponse, error) {
	img, err := s.opts.Images.Status(ctx, ref)
	if errors.Is(err, images.ErrNotFound) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ImageStatusResponse{Image: storedImage(img)}, nil
}

// pullStored gets an image, with the credential of who asks.
func (s *Server) pullStored(ctx context.Context, ref string,
	auth *runtimeapi.AuthConfig) (*runtimeapi.PullImageResponse, error) {
	var credential *images.Auth
	if auth != nil {
		credential = &images.Auth{
			Username: auth.Username, Password: auth.Password, Auth: auth.Auth,
			IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
		}
	}
	img, err := s.opts.Images.Pull(ctx, ref, credential)
	if errors.Is(err, images.ErrNotFound) {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: img.ID}, nil
}

// removeStored forgets an image that no container has.
func (s *Server) removeStored(ctx context.Context, ref string) (*runtimeapi.RemoveImageResponse, error) {
	img, err := s.opts.Images.Status(ctx, ref)
	if errors.Is(err, images.ErrNotFound) {
		return &runtimeapi.RemoveImageResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	used := false
	for _, c := range s.containers {
		used = used || c.Real && c.ImageID == img.ID
	}
	s.mu.RUnlock()
	if used {
		return nil, status.Errorf(codes.FailedPrecondition, "image %s has containers: remove them first", ref)
	}
	return &runtimeapi.RemoveImageResponse{}, s.opts.Images.Remove(ctx, ref)
}

// storedImages lists the images of the store, or the one that is asked for.
func (s *Server) storedImages(ctx context.Context, want string) ([]*runtimeapi.Image, error) {
	if s.opts.Images == nil {
		return nil, nil
	}
	all, err := s.opts.Images.List(ctx)
	if err != nil {
		return nil, err
	}
	var list []*runtimeapi.Image
	for _, img := range all {
		if want == "" || want == img.ID || slices.Contains(img.Names, want) || slices.Contains(img.Digests, want) {
			list = append(list, storedImage(&img))
		}
	}
	return list, nil
}

// storedImage describes an image. Its user decides whether a pod that must not run as root may have it.
func storedImage(img *images.Image) *runtimeapi.Image {
	out := &runtimeapi.Image{
		Id: img.ID, RepoTags: img.Names, RepoDigests: img.Digests, Size: uint64(max(img.Size, 1)), // it must not be 0
		Spec: &runtimeapi.ImageSpec{Image: img.ID},
	}
	user, _, _ := strings.Cut(img.Config.Config.User, ":")
	uid, err := strconv.ParseInt(user, 10, 64)
	switch {
	case user == "":
		out.Uid = &runtimeapi.Int64Value{}
	case err == nil:
		out.Uid = &runtimeapi.Int64Value{Value: uid}
	default:
		out.Username = user
	}
	return out
}
