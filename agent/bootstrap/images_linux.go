package bootstrap

import (
	"bufio"
	"context"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

const (
	// imageLimit bounds loading one image of a bundle.
	imageLimit = 15 * time.Minute
	// imagesAtATime bounds how many images are loaded at a time. Each needs its own ctr process.
	imagesAtATime = 4
)

var (
	// controlPlaneImage matches the names of the images that only control planes run.
	controlPlaneImage = regexp.MustCompile(`/(kube-apiserver|kube-controller-manager|kube-scheduler|etcd):`)
	// controlPlaneField matches the field in the configuration of "kubeadm join" that makes a host a control plane.
	controlPlaneField = regexp.MustCompile(`\bcontrolPlane["']?\s*:`)
	// controlPlaneCommand matches commands that make a host a control plane.
	controlPlaneCommand = regexp.MustCompile(`kubeadm['"]?\s+['"]?init\b|--control-plane\b`)
)

// loadImages imports those images of the bundle that the host needs and the container runtime lacks.
func (b *Bootstrap) loadImages(ctx context.Context, config *cloudconfig.Config) error {
	if b.kubeadmRan() {
		return nil
	}
	if len(b.Journal.Notes(KeyBundle)) == 0 {
		return nil
	}
	dir := filepath.Join(b.BundlesDir, b.Version)
	m, err := bundlefile.ReadManifest(dir)
	if err != nil {
		return fault.New(err, "the bundle can't be read")
	}
	var there strings.Builder
	ctr := []string{filepath.Join(dir, "bin", "ctr"), "--namespace", "k8s.io", "images"}
	list := command.Command{Args: slices.Concat(ctr, []string{"list", "--quiet"}), Output: &there, Limit: imageLimit}
	if err := list.Run(ctx); err != nil {
		return fault.New(err, "containerd does not list its images")
	}
	known, worker := strings.Fields(there.String()), onlyWorker(config)
	wanted := slices.DeleteFunc(slices.Clone(m.Images), func(i bundlefile.Image) bool {
		return slices.Contains(known, i.Name) || worker && controlPlaneImage.MatchString(i.Name)
	})
	return inParallel(ctx, min(runtime.NumCPU(), imagesAtATime), wanted,
		func(ctx context.Context, i bundlefile.Image) error {
			b.Log.Printf("loading image %s", i.Name)
			load := command.Command{
				Args:   slices.Concat(ctr, []string{"import", "--local", filepath.Join(dir, i.Path)}),
				Output: b.Log, Limit: imageLimit,
			}
			if err := load.Run(ctx); err != nil {
				return fault.New(err, "image %s can't be loaded", i.Name)
			}
			return nil
		})
}

// inParallel calls the function do for each item, at most n at a time. The first error cancels the context of the other
// calls, and inParallel returns this error.
func inParallel[T any](ctx context.Context, n int, items []T, do func(context.Context, T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan T)
	var workers sync.WaitGroup
	for range min(n, len(items)) {
		workers.Go(func() {
			for item := range queue {
				if ctx.Err() != nil {
					continue
				}
				if err := do(ctx, item); err != nil {
					stop(err) // only the first one counts
				}
			}
		})
	}
	for _, item := range items {
		select {
		case queue <- item:
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// onlyWorker reports whether the data certainly makes the host a worker: it joins a cluster, and nothing in it says
// that the host becomes a control plane.
func onlyWorker(c *cloudconfig.Config) bool {
	commands := slices.Concat(c.BootCommands, c.Commands)
	return slices.ContainsFunc(commands, isKubeadm) &&
		!slices.ContainsFunc(commands, func(c cloudconfig.Command) bool {
			return controlPlaneCommand.MatchString(c.Script)
		}) &&
		!slices.ContainsFunc(c.Files, func(f cloudconfig.File) bool {
			in, err := f.Open()
			return err != nil || controlPlaneField.MatchReader(bufio.NewReader(in))
		})
}
