package preflight

import (
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// Where the programs of a node come from, as the agent's configuration has it. Empty: it doesn't say.
const (
	fromPlane     = "plane"
	fromDirectory = "directory"
	fromPackages  = "packages"
)

// bundlesDir has the bundles, unpacked or as archives.
const bundlesDir = "/opt/capstan/bundles"

// packagedRuntimes are the services of containerd that packages bring, and that a bundle's doesn't go with.
var packagedRuntimes = []string{"/usr/lib/systemd/system/containerd.service", "/lib/systemd/system/containerd.service"}

// source says where the programs of a node will come from.
type source struct {
	// from is what was asked for; empty: the host's own programs if it has both, else the plane's bundle.
	from string
	// bundles are those on the host; brings is true if one of them has a container runtime as well.
	bundles []string
	brings  bool
	// lacks are the programs that the host itself doesn't have.
	lacks []string
	// plane is true if the host has enrolled at a plane that may have bundles.
	plane bool
}

// source looks at the agent's configuration, the bundles and the programs of the host.
func (s *System) source(role Role) source {
	var config struct{ Bundles, Enrolment string }
	_ = yaml.Unmarshal([]byte(s.text("/etc/capstan/agent.yaml")), &config) // the agent says what is wrong with it
	from := source{from: role.Bundles, plane: config.Enrolment != ""}
	if from.from == "" {
		from.from = config.Bundles
	}
	for _, name := range s.entries(bundlesDir) {
		archive := strings.HasSuffix(name, bundlefile.FileName("", s.Architecture))
		switch {
		case strings.HasPrefix(name, "."), // a download that isn't complete
			strings.HasSuffix(name, ".tar.gz") && !archive: // for other hosts
		case archive, s.exists(filepath.Join(bundlesDir, name, bundlefile.ManifestName)):
			from.brings = true
			fallthrough
		default:
			from.bundles = append(from.bundles, name)
		}
	}
	for _, program := range []string{"kubeadm", "kubelet"} {
		if !s.program(program) {
			from.lacks = append(from.lacks, program)
		}
	}
	if from.from == "" && len(from.lacks) == 0 && len(from.bundles) == 0 {
		from.from = fromPackages
	}
	return from
}

// bundled reports whether a bundle will bring the container runtime.
func (from source) bundled() bool {
	switch from.from {
	case fromPackages:
		return false
	case fromPlane, fromDirectory:
		return true
	}
	return from.brings || len(from.bundles) == 0
}

func containerRuntime(s *System, role Role) Finding {
	if s.source(role).bundled() {
		for _, unit := range packagedRuntimes {
			if s.exists(unit) {
				return missing("containerd of a package, "+unit+", beside which that of a bundle is not installed",
					s.remove("containerd")+"   # or, to keep it: capstan-agent enroll --bundles packages")
			}
		}
		return ok("comes with the bundle")
	}
	for _, socket := range []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock"} {
		if s.exists(socket) {
			return ok(socket)
		}
	}
	start := "systemctl enable --now containerd"
	if s.program("containerd") {
		return missing("containerd is installed and does not run", start)
	}
	return missing("no socket of containerd or CRI-O below /run", s.install("containerd", "containerd")+" && "+start)
}

func kubernetes(s *System, role Role) Finding {
	from := s.source(role)
	switch {
	case from.from != fromPackages && len(from.bundles) > 0:
		return ok("bundles of " + strings.Join(from.bundles, ", "))
	case from.from == fromDirectory:
		return missing("no bundle in "+bundlesDir,
			"# copy one there, named as "+bundlefile.FileName("v1.36.3", s.Architecture))
	case from.from == fromPlane || from.from == "" && from.plane:
		return ok("come with a bundle of the plane")
	case from.from == "":
		return warning("none of its own: it takes a plane that has bundles, or one in "+bundlesDir,
			"# on the plane's computer: capstan bundle list")
	case len(from.lacks) == 0:
		return ok("kubeadm, kubelet")
	}
	return missing("no "+strings.Join(from.lacks, " and "),
		"# install kubeadm and kubelet of the clusters' version: see kubernetes.io, Installing kubeadm")
}

// validBundles reports whether there is such a source.
func validBundles(from string) bool {
	return slices.Contains([]string{"", fromPlane, fromDirectory, fromPackages}, from)
}
