package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/kube/component"
	"github.com/capstan-dev/capstan/kube/cri/images"
	"github.com/capstan-dev/capstan/kube/run"
)

// An addOn is an image of kubeadm's add-ons whose program is in the bundle. Its containers are real. Only the program
// is bind-mounted from the bundle, so that all hosts of a machine share it in memory. Its image needs no registry.
type addOn struct {
	applet  string // of the bundle's binary; empty if the program is capstan-run
	program string // its path in the image; the name selects the applet
	user    int64  // as in the published image
	tag     func(Contents) string
	beside  map[string]string // further programs: file name in the bundle's directory, and path in the image
}

// addOns maps the names of images to add-ons.
var addOns = map[string]addOn{
	component.CoreDNS: {"coredns", "/coredns", 65532, func(c Contents) string { return c.CoreDNSTag }, nil},
	component.KubeProxy: {
		"kube-proxy", "/usr/local/bin/kube-proxy", 0, func(c Contents) string { return c.Kubernetes },
		map[string]string{"capstan-nft": "/usr/local/bin/nft"},
	},
	component.MetricsAPI: {
		"metrics-api", "/metrics-api", 65532, func(c Contents) string { return c.Kubernetes }, nil,
	},
	component.Pause: {"", "/pause", 65535, func(c Contents) string { return c.PauseTag }, nil},
}

// Contents is a bundle's description of itself, as "capstan-kube versions" prints it.
type Contents struct {
	// Kubernetes is its release, such as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	// CoreDNSTag and PauseTag are the tags that kubeadm of this release writes into manifests.
	CoreDNSTag string `json:"coredns-tag"`
	PauseTag   string `json:"pause-tag"`
	// Applets are the names of its applets.
	Applets []string `json:"applets"`
}

// has reports whether a bundle has the program of an image.
func (a addOn) has(c Contents, tag string) bool {
	return a.tag(c) == tag && (a.applet == "" || slices.Contains(c.Applets, a.applet))
}

// contentsLimit bounds how long a bundle may take to describe itself.
const contentsLimit = 20 * time.Second

// otherBundles caches the contents of all bundles except the server's own.
type otherBundles struct {
	mu    sync.Mutex
	known map[string]Contents // by the path of the binary
}

// find returns the binary of a bundle in dir that has the add-on, or false.
func (o *otherBundles) find(dir string, a addOn, tag string) (string, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	binaries, err := filepath.Glob(filepath.Join(dir, "*", "capstan-kube"))
	if err != nil {
		return "", false, fmt.Errorf("looking for bundles in %s: %w", dir, err)
	}
	var failed error
	for _, binary := range binaries {
		contents, known := o.known[binary]
		if !known {
			if contents, err = askContents(binary); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			if o.known == nil {
				o.known = map[string]Contents{}
			}
			o.known[binary] = contents
		}
		if a.has(contents, tag) {
			return binary, true, nil
		}
	}
	return "", false, failed
}

// askContents asks a bundle for its contents.
func askContents(binary string) (Contents, error) {
	ctx, cancel := context.WithTimeout(context.Background(), contentsLimit)
	defer cancel()
	var c Contents
	out, err := exec.CommandContext(ctx, binary, "versions").Output()
	if err == nil {
		err = json.Unmarshal(out, &c)
	}
	if err != nil {
		return c, fmt.Errorf("asking the bundle %s what it has: %w", binary, err)
	}
	return c, nil
}

// addOnProgram returns the program of an add-on's image if a bundle has that program. Otherwise ok is false, and the
// image comes from elsewhere.
func (s *Server) addOnProgram(ref string) (program string, a addOn, ok bool) {
	img, is := component.AddOn(ref)
	if !is {
		return "", a, false
	}
	a = addOns[img.Name]
	bundle := s.opts.Bundles.Own
	if !a.has(s.opts.Bundles.Contents, img.Tag) {
		var err error
		if bundle, ok, err = s.others.find(s.opts.Bundles.Dir, a, img.Tag); err != nil {
			s.log.Warn("looking for the bundle of an add-on", "image", ref, "error", err)
		}
		if !ok {
			return "", a, false
		}
	}
	if a.applet == "" {
		return s.opts.Runner, a, true
	}
	return bundle, a, true
}

// realImage returns the image of a container, and the mounts that it needs in addition to the container's own.
func (s *Server) realImage(ctx context.Context, c *container) (*images.Image, []run.Mount, error) {
	program, a, ok := s.addOnProgram(c.Image)
	if !ok || c.ImageID != imageID(c.Image) {
		img, err := s.opts.Images.Status(ctx, c.ImageID)
		return img, nil, err
	}
	layer, err := s.addOnLayer()
	if err != nil {
		return nil, nil, err
	}
	img := &images.Image{ID: c.ImageID, Layers: []string{layer}}
	img.Config.Config.User = fmt.Sprintf("%d:%d", a.user, a.user)
	img.Config.Config.Entrypoint = []string{a.program}
	mounts := []run.Mount{{Source: program, Target: a.program, ReadOnly: true}}
	for name, target := range a.beside {
		mounts = append(mounts, run.Mount{
			Source: filepath.Join(filepath.Dir(program), name), Target: target, ReadOnly: true,
		})
	}
	return img, mounts, nil
}

// withSource omits mounts whose source the host lacks. kube-proxy's pod mounts /lib/modules, which can't be created if
// it is missing: a host's /lib is the machine's. Omitting that mount is harmless: the bundle's kube-proxy loads no
// modules.
func withSource(mounts []run.Mount) []run.Mount {
	return slices.DeleteFunc(mounts, func(m run.Mount) bool {
		_, err := os.Stat(m.Source)
		return len(m.Layers) == 0 && filepath.IsAbs(m.Source) && errors.Is(err, fs.ErrNotExist)
	})
}

// addOnFiles are all files of an add-on's image except its program.
var addOnFiles = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
	"etc/group":  "root:x:0:\nnonroot:x:65532:\n",
}

// addOnLayer returns the directory of the add-ons' only layer, and creates it if it is missing.
func (s *Server) addOnLayer() (string, error) {
	layer := filepath.Join(s.store.dir, "add-on")
	if _, err := os.Stat(layer); err == nil {
		return layer, nil
	}
	next, err := os.MkdirTemp(s.store.dir, "add-on-")
	if err != nil {
		return "", fmt.Errorf("making the layer of add-ons: %w", err)
	}
	defer os.RemoveAll(next)
	err = errors.Join(os.Chmod(next, 0o755), os.Mkdir(filepath.Join(next, "etc"), 0o755))
	for _, name := range slices.Sorted(maps.Keys(addOnFiles)) {
		err = cmp.Or(err, os.WriteFile(filepath.Join(next, name), []byte(addOnFiles[name]), 0o644))
	}
	if err == nil {
		err = os.Rename(next, layer)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // another start created it meanwhile
		return "", fmt.Errorf("making the layer of add-ons: %w", err)
	}
	return layer, nil
}
