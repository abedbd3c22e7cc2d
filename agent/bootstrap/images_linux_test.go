package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// fakeCtr lists one image and notes which archives it is asked to import. It fails to import the archive of the image
// "broken".
const fakeCtr = `#!/bin/sh
case "$4" in
list) echo registry.k8s.io/pause:3.10 ;;
import) case "$6" in *broken*) exit 1 ;; esac; basename "$6" >> "$(dirname "$0")/imported" ;;
esac
`

func commandsOf(text string) []cloudconfig.Command { return []cloudconfig.Command{{Script: text}} }

func TestOnlyWhatAHostNeedsIsLoaded(t *testing.T) {
	all := []string{
		"registry.k8s.io/coredns/coredns:v1", "registry.k8s.io/etcd:3", "registry.k8s.io/kube-apiserver:v1",
		"registry.k8s.io/kube-controller-manager:v1", "registry.k8s.io/kube-proxy:v1",
		"registry.k8s.io/kube-scheduler:v1", "registry.k8s.io/pause:3.10", // pause is loaded already
	}
	everything := "coredns etcd kube-apiserver kube-controller-manager kube-proxy kube-scheduler"
	join := func(text string) []cloudconfig.File {
		return []cloudconfig.File{{Path: "/run/kubeadm/kubeadm-join-config.yaml", Content: []byte(text)}}
	}
	cases := map[string]struct {
		config cloudconfig.Config
		images []string
		want   string
		fails  bool
	}{
		"a first control plane": {
			cloudconfig.Config{Commands: commandsOf("kubeadm init --config /run/kubeadm/kubeadm.yaml")}, all, everything, false,
		},
		"a control plane that joins": {cloudconfig.Config{
			Commands: commandsOf("kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml"),
			Files:    join("kind: JoinConfiguration\ncontrolPlane:\n  localAPIEndpoint: {}\n"),
		}, all, everything, false},
		"a control plane that joins, in JSON": {cloudconfig.Config{
			Commands: commandsOf("kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml"),
			Files:    join(`{"kind":"JoinConfiguration","controlPlane":{}}`),
		}, all, everything, false},
		"a control plane that joins with a flag": {
			cloudconfig.Config{Commands: commandsOf("kubeadm join 192.0.2.1:6443 --control-plane")}, all, everything, false,
		},
		"a worker": {cloudconfig.Config{
			Commands: commandsOf("kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml"),
			Files:    join("kind: JoinConfiguration\ndiscovery: {}\n"),
		}, all, "coredns kube-proxy", false},
		"no kubeadm": {cloudconfig.Config{Commands: commandsOf("/usr/local/bin/make-node")}, all, everything, false},
		"a file that can't be read": {cloudconfig.Config{
			Commands: commandsOf("kubeadm join --config f"), Files: []cloudconfig.File{{Path: "/f", Packed: true}},
		}, all, everything, false},
		"an image that can't be loaded": {
			cloudconfig.Config{}, append(slices.Clone(all), "registry.k8s.io/broken:1"), "", true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, dir := withImages(t, c.images)
			err := b.loadImages(t.Context(), &c.config)
			data, _ := os.ReadFile(filepath.Join(dir, "bin", "imported"))
			got := strings.Fields(strings.ReplaceAll(string(data), ".tar", ""))
			slices.Sort(got)
			if (err != nil) != c.fails || !c.fails && strings.Join(got, " ") != c.want {
				t.Errorf("loaded %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

// withImages returns a bootstrap whose bundle has images, and the bundle's directory.
func withImages(t *testing.T, names []string) (*Bootstrap, string) {
	t.Helper()
	base := t.TempDir()
	j, err := journal.Open(filepath.Join(base, "journal"), "capstan://default/a/1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	log, err := command.OpenLog(filepath.Join(base, "log"), LogLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	if err := j.Note(KeyBundle, "v1.36.3"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "bundles", "v1.36.3")
	m := bundlefile.Manifest{Kubernetes: "v1.36.3", Architecture: "amd64"}
	digest := strings.Repeat("0", 64)
	m.Files = append(m.Files, bundlefile.File{Path: "bin/ctr", Size: 1, SHA256: digest})
	for _, name := range names {
		short, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		path := "images/" + short + ".tar"
		m.Files = append(m.Files, bundlefile.File{Path: path, Size: 1, SHA256: digest})
		m.Images = append(m.Images, bundlefile.Image{Name: name, Path: path})
	}
	slices.SortFunc(m.Files, func(a, b bundlefile.File) int { return strings.Compare(a.Path, b.Path) })
	text, err := json.Marshal(m)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "bin"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, bundlefile.ManifestName), text, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "bin", "ctr"), []byte(fakeCtr), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Bootstrap{Journal: j, Log: log, BundlesDir: filepath.Dir(dir), Version: "v1.36.3"}, dir
}

func TestInParallel(t *testing.T) {
	var mu sync.Mutex
	ran, running, most := 0, 0, 0
	together := make(chan struct{})
	err := inParallel(t.Context(), 3, make([]int, 20), func(context.Context, int) error {
		mu.Lock()
		running++
		most = max(most, running)
		if running == 3 && ran == 0 {
			close(together)
		}
		mu.Unlock()
		<-together
		mu.Lock()
		defer mu.Unlock()
		running--
		ran++
		return nil
	})
	if err != nil || ran != 20 || most != 3 {
		t.Errorf("%d items ran, %d at a time: %v", ran, most, err)
	}
	failure := errors.New("the disk is full")
	err = inParallel(t.Context(), 2, []int{0, 1, 2, 3}, func(ctx context.Context, n int) error {
		switch n {
		case 0:
			return failure
		case 1:
			<-ctx.Done() // the failure of the other call cancels this context
			return ctx.Err()
		}
		t.Errorf("item %d began after a failure", n)
		return nil
	})
	if !errors.Is(err, failure) {
		t.Errorf("the error is %v, want the first one", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := inParallel(ended, 2, []int{0}, func(ctx context.Context, _ int) error { return ctx.Err() }); !errors.Is(
		err, context.Canceled) {
		t.Errorf("the error after the end of the context is %v", err)
	}
	if err := inParallel(t.Context(), 2, nil, func(context.Context, int) error { return failure }); err != nil {
		t.Errorf("the error without items is %v", err)
	}
}
