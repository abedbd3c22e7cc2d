package cri

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
)

// defaultPath is the PATH of components and of commands executed in their containers.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Bundles locates the binaries of components.
type Bundles struct {
	// Dir holds one directory for each bundle, named after its Kubernetes version: Dir/v1.36.3/capstan-kube.
	Dir string
	// Own is the binary that contains this server; Contents describes this binary.
	Own      string
	Contents Contents
}

// Find returns the path of the binary for an image: that of the bundle with the image's version. etcd is always this
// server's own, because its versions differ from Kubernetes', and every bundle's etcd can read its predecessor's data.
func (b Bundles) Find(image component.Image) (string, error) {
	if image.Name == "etcd" || image.Tag == b.Contents.Kubernetes {
		return b.Own, nil
	}
	binary := filepath.Join(b.Dir, filepath.Base(image.Tag), "capstan-kube")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("no bundle has %s %s: this host has the bundle of %s and the bundles in %s; install the "+
			"missing bundle, or use an available version",
			image.Name, image.Tag, b.Contents.Kubernetes, b.Dir)
	}
	return binary, nil
}

// commandLine returns the command line of a component, as the container requests it. commandLine refuses a command that
// would run another program.
func commandLine(image component.Image, config *runtimeapi.ContainerConfig) ([]string, error) {
	args := slices.Concat(config.Command, config.Args)
	if len(config.Command) == 0 {
		return append([]string{image.Name}, args...), nil
	}
	if path.Base(config.Command[0]) != image.Name {
		return nil, fmt.Errorf("command %q is not in this host's image of %s, which has only the component itself",
			config.Command[0], image.Name)
	}
	args[0] = image.Name // the name selects the applet
	return args, nil
}

// environment merges the server's settings for a component with the container's own, which take precedence.
func environment(settings []string, envs []*runtimeapi.KeyValue) []string {
	env := append([]string{defaultPath}, settings...)
	for _, e := range envs {
		name := e.Key + "="
		env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name) })
		env = append(env, name+string(e.Value)) // bytes since v1.36, a string before
	}
	return env
}

// ownFiles are files that the kubelet mounts into every container; a component uses the host's instead.
var ownFiles = []string{"/etc/hosts", "/dev/termination-log"}

// checkMounts refuses mounts whose path in the container differs from the path on the host: a process in the host's own
// filesystem could not find them.
func checkMounts(mounts []*runtimeapi.Mount) error {
	for _, m := range mounts {
		if slices.Contains(ownFiles, m.ContainerPath) || path.Clean(m.ContainerPath) == path.Clean(m.HostPath) {
			continue
		}
		return fmt.Errorf("%s can't be mounted at %s: components run in the host's own filesystem, so mount it "+
			"at the path that it has on the host",
			m.HostPath, m.ContainerPath)
	}
	return nil
}
