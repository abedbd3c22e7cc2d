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

// stored reports whether an image comes from the image store. All images do, except those of add-ons, those of
// components that run from the bundle, and, if kubeadm asks, those that kubeadm has pulled before. annotations are
// those of the pod for which the kubelet asks; kubeadm sends none.
func (s *Server) stored(ctx context.Context, ref string, annotations map[string]string) bool {
	if s.source(ctx) == nil || ref == "" {
		return false
	}
	if _, _, is := s.addOnProgram(ref); is {
		return false
	}
	source, known := annotations[component.SourceAnnotation]
	_, is := component.Match(ref)
	if is && (!known || source == "file") || !known && s.reference(imageID(ref)) != "" {
		return false
	}
	return s.reference(ref) == ""
}

// forKubeadm reports whether kubeadm itself requested a pull, and the bundle replaces the requested image. kubeadm
// pulls images before there are pods.
func forKubeadm(req *runtimeapi.PullImageRequest) bool {
	_, known := req.GetImage().GetAnnotations()[component.SourceAnnotation]
	return !known && req.SandboxConfig == nil && component.Bundled(req.GetImage().GetImage())
}

// fromImage decides whether a container is real and, if so, finds its image.
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
	if _, _, is := s.addOnProgram(c.Image); is {
		c.Real = true
		return nil
	}
	img, err := s.opts.Images.Status(ctx, spec.Image)
	if err != nil {
		return storeError(err)
	}
	c.Real, c.ImageID, c.StopSignal = true, img.ID, img.Config.Config.StopSignal
	return nil
}

// storedStatus returns the status of an image in the store. An image that does not exist is not an error.
func (s *Server) storedStatus(ctx context.Context, ref string) (*runtimeapi.ImageStatusResponse, error) {
	img, err := s.opts.Images.Status(ctx, ref)
	if errors.Is(err, images.ErrNotFound) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, storeError(err)
	}
	return &runtimeapi.ImageStatusResponse{Image: storedImage(img)}, nil
}

// pullStored pulls an image with the caller's credential.
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
	if err != nil {
		return nil, storeError(err)
	}
	return &runtimeapi.PullImageResponse{ImageRef: img.ID}, nil
}

// removeStored removes an image that no container uses.
func (s *Server) removeStored(ctx context.Context, ref string) (*runtimeapi.RemoveImageResponse, error) {
	img, err := s.opts.Images.Status(ctx, ref)
	if errors.Is(err, images.ErrNotFound) {
		return &runtimeapi.RemoveImageResponse{}, nil
	}
	if err != nil {
		return nil, storeError(err)
	}
	s.mu.RLock()
	used := false
	for _, c := range s.containers {
		used = used || c.Real && (c.ImageID == img.ID || mountsImage(c.config, img))
	}
	s.mu.RUnlock()
	if used {
		return nil, status.Errorf(codes.FailedPrecondition, "containers use image %s: remove these containers first", ref)
	}
	if err := s.opts.Images.Remove(ctx, ref); err != nil {
		return nil, storeError(err)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// storedImages lists the images of the store, or only the requested one.
func (s *Server) storedImages(ctx context.Context, want string) ([]*runtimeapi.Image, error) {
	if s.source(ctx) == nil {
		return nil, nil
	}
	all, err := s.opts.Images.List(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	var list []*runtimeapi.Image
	for _, img := range all {
		if want == "" || want == img.ID || slices.Contains(img.Names, want) || slices.Contains(img.Digests, want) {
			list = append(list, storedImage(&img))
		}
	}
	return list, nil
}

// storedImage describes an image. The image's user determines whether a pod that must not run as root may use the
// image.
func storedImage(img *images.Image) *runtimeapi.Image {
	out := &runtimeapi.Image{
		Id: img.ID, RepoTags: img.Names, RepoDigests: img.Digests, Size: uint64(max(img.Size, 1)), // must not be 0
		Spec: &runtimeapi.ImageSpec{Image: img.ID}, Pinned: img.Pinned,
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

// storeCodes maps the store's codes to those of gRPC. The kubelet shows the message whatever the code; tools use the
// code to decide whether to retry.
var storeCodes = map[string]codes.Code{
	"Invalid": codes.InvalidArgument, "Denied": codes.PermissionDenied, "NotFound": codes.NotFound,
	"InUse": codes.FailedPrecondition, "Busy": codes.Unavailable, "Failed": codes.Internal,
	"Unavailable": codes.Unavailable, "NoSpace": codes.ResourceExhausted,
}

// storeError adds a gRPC code to an error of the image store. A request that got no answer from the store can be
// retried, unless the caller has given up.
func storeError(err error) error {
	code := codes.Unavailable
	var refusal *images.Error
	switch {
	case errors.As(err, &refusal):
		code = codes.Internal
		if known, ok := storeCodes[refusal.Code]; ok {
			code = known
		}
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return status.Error(code, err.Error())
}
