package cri

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
)

// maxImages bounds the list of requested images.
const maxImages = 1000

// hollowUser is the user that hollow images claim to run as. It makes the kubelet accept pods that must not run as
// root.
const hollowUser = 65532

// imageID returns the id of a hollow image, a hash of its reference.
func imageID(ref string) string {
	if strings.HasPrefix(ref, "sha256:") {
		return ref
	}
	sum := sha256.Sum256([]byte(ref))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// askedImage returns the image that a request names. An id may lack its prefix, "sha256:".
func askedImage(spec *runtimeapi.ImageSpec) string {
	ref := spec.GetImage()
	if _, err := hex.DecodeString(ref); err == nil && len(ref) == 2*sha256.Size {
		return "sha256:" + ref
	}
	return ref
}

// reference returns the reference of the image with a known id, or "".
func (s *Server) reference(id string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.images[id]
}

// rememberImage records that an image was requested. The caller holds the server's lock.
func (s *Server) rememberImage(ref string) error {
	id := imageID(ref)
	if s.images[id] != "" {
		return nil
	}
	if len(s.images) >= maxImages {
		s.forgetUnused()
	}
	s.images[id] = ref
	return s.saveImages()
}

// forgetUnused drops all images that no container uses.
func (s *Server) forgetUnused() {
	used := map[string]bool{}
	for _, c := range s.containers {
		used[c.ImageID] = true
	}
	maps.DeleteFunc(s.images, func(id, _ string) bool { return !used[id] })
}

func (s *Server) saveImages() error {
	return s.store.saveList("images", slices.Sorted(maps.Values(s.images)))
}

// ListImages lists the requested images.
func (s *Server) ListImages(
	ctx context.Context, req *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	resp := &runtimeapi.ListImagesResponse{}
	want := req.GetFilter().GetImage().GetImage()
	stored, err := s.storedImages(ctx, want)
	if err != nil {
		return nil, err
	}
	resp.Images = stored
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, ref := range s.images {
		if want == "" || want == ref || want == id {
			resp.Images = append(resp.Images, image(ref))
		}
	}
	return resp, nil
}

// ImageStatus returns the status of an image. Images of components always exist. For hollow containers, all images
// exist.
func (s *Server) ImageStatus(
	ctx context.Context, req *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	ref := askedImage(req.GetImage())
	if known := s.reference(ref); known != "" {
		ref = known
	}
	if s.stored(ctx, ref, req.GetImage().GetAnnotations()) {
		return s.storedStatus(ctx, ref)
	}
	if ref == "" || strings.HasPrefix(ref, "sha256:") {
		return &runtimeapi.ImageStatusResponse{}, nil // an id that the server never returned
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.rememberImage(ref); err != nil { // from now on its id is known
		return nil, err
	}
	return &runtimeapi.ImageStatusResponse{Image: image(ref)}, nil
}

// PullImage pulls an image. Images of components exist already. For hollow containers, all images do.
func (s *Server) PullImage(
	ctx context.Context, req *runtimeapi.PullImageRequest,
) (*runtimeapi.PullImageResponse, error) {
	ref := askedImage(req.GetImage())
	if s.stored(ctx, ref, req.GetImage().GetAnnotations()) && !forKubeadm(req) {
		return s.pullStored(ctx, ref, req.Auth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.rememberImage(ref); err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: imageID(ref)}, nil
}

// RemoveImage removes an image from the list. It may be called again.
func (s *Server) RemoveImage(
	ctx context.Context, req *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	ref := askedImage(req.GetImage())
	id := imageID(ref)
	if s.stored(ctx, ref, nil) && s.reference(id) == "" {
		return s.removeStored(ctx, ref)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		if c.ImageID == id {
			return &runtimeapi.RemoveImageResponse{}, nil // its containers need the reference
		}
	}
	delete(s.images, id)
	return &runtimeapi.RemoveImageResponse{}, s.saveImages()
}

// ImageFsInfo reports the filesystem of the state directory, where images take no room, and that of the image store.
func (s *Server) ImageFsInfo(
	ctx context.Context, _ *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	usage := &runtimeapi.FilesystemUsage{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: s.opts.State},
		UsedBytes:  &runtimeapi.UInt64Value{},
		InodesUsed: &runtimeapi.UInt64Value{},
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.opts.State, &st); err == nil {
		usage.InodesUsed.Value = st.Files - st.Ffree
	}
	containers := []*runtimeapi.FilesystemUsage{usage}
	if s.source(ctx) == nil {
		return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: containers, ContainerFilesystems: containers}, nil
	}
	stored, err := s.opts.Images.Usage(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	images := []*runtimeapi.FilesystemUsage{{
		Timestamp:  usage.Timestamp,
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: stored.Path},
		UsedBytes:  &runtimeapi.UInt64Value{Value: stored.Bytes},
		InodesUsed: &runtimeapi.UInt64Value{Value: stored.Inodes},
	}}
	return &runtimeapi.ImageFsInfoResponse{ContainerFilesystems: containers, ImageFilesystems: images}, nil
}

// image returns the description of an image.
func image(ref string) *runtimeapi.Image {
	img := &runtimeapi.Image{
		Id:     imageID(ref),
		Size:   1, // must not be 0
		Spec:   &runtimeapi.ImageSpec{Image: ref},
		Pinned: true, // it takes no room
	}
	if strings.Contains(ref, "@") {
		img.RepoDigests = []string{ref}
	} else {
		img.RepoTags = []string{ref}
	}
	user := int64(hollowUser)
	if _, ok := component.Match(ref); ok {
		user = 0
	}
	if known, ok := component.AddOn(ref); ok {
		user = addOns[known.Name].user
	}
	img.Uid = &runtimeapi.Int64Value{Value: user}
	return img
}
