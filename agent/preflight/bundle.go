package preflight

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// Sources of a node's programs, as named in the agent's configuration. An empty text means that no source is
// configured.
const (
	fromPlane     = "plane"
	fromDirectory = "directory"
	fromPackages  = "packages"
)

// fromMirror is a source that only the CapstanHost can name.
const fromMirror = "mirror"

// bundlesDir contains the bundles, unpacked or as archives.
const bundlesDir = "/opt/capstan/bundles"

// packagedRuntimes are the containerd services that packages install. A bundle's service can't run at the same time.
var packagedRuntimes = []string{"/usr/lib/systemd/system/containerd.service", "/lib/systemd/system/containerd.service"}

// source says where the programs of a node will come from.
type source struct {
	// from is the source that the caller, the configuration or the CapstanHost chooses. If it is empty, the host's own
	// kubeadm and kubelet are the source if the host has both, else the plane's bundle is.
	from string
	// bundles are the bundles on the host; brings is true if one of them includes a container runtime.
	bundles []string
	brings  bool
	// lacks are the programs that the host itself doesn't have.
	lacks []string
	// plane is true if the host has enrolled with a plane that may have bundles.
	plane bool
	// policy is the CapstanHost's policy, if that applies.
	policy v1beta2.BundlePolicy
}

// source determines the source from the agent's configuration, the bundles and the host's programs.
func (s *System) source(role Role) source {
	var config struct{ Bundles, Enrolment string }
	_ = yaml.Unmarshal([]byte(s.text("/etc/capstan/agent.yaml")), &config) // the agent reports what is wrong with it
	from := source{from: role.Bundles, plane: config.Enrolment != ""}
	if from.from == "" {
		from.from = config.Bundles
	}
	if from.from == "" && role.enrolment != nil {
		from.policy = role.enrolment.Bundles
		from.from = strings.ToLower(string(from.policy.Source))
	}
	for _, name := range s.entries(bundlesDir) {
		archive := strings.HasSuffix(name, bundlefile.FileName("", s.Architecture))
		switch {
		case strings.HasPrefix(name, "."), // an incomplete download
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
	case fromPlane, fromDirectory, fromMirror:
		return true
	}
	return from.brings || len(from.bundles) == 0
}

func containerRuntime(s *System, role Role) Finding {
	if s.source(role).bundled() {
		for _, unit := range packagedRuntimes {
			if s.exists(unit) {
				return missing("containerd of a package, "+unit+": next to it, a bundle's containerd can't be installed",
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
	bundles := from.bundles
	if role.Kubernetes != "" {
		bundles = slices.DeleteFunc(slices.Clone(bundles), func(name string) bool {
			return name != role.Kubernetes && name != bundlefile.FileName(role.Kubernetes, s.Architecture)
		})
	}
	switch {
	case from.from != fromPackages && len(bundles) > 0:
		return s.verified(bundles)
	case from.from == fromDirectory:
		return missing("no bundle"+of(role.Kubernetes)+" in "+bundlesDir, "# copy one there, named as "+
			bundlefile.FileName(cmp.Or(role.Kubernetes, "v1.36.3"), s.Architecture))
	case from.from == fromMirror:
		return probed(role, from.policy, "the mirror "+from.policy.Mirror.URL)
	case from.from == fromPlane || from.from == "" && from.plane:
		if role.enrolment == nil {
			return ok("come with a bundle of the plane")
		}
		return probed(role, v1beta2.BundlePolicy{Source: v1beta2.BundlesFromPlane}, "the plane")
	case from.from == "":
		return warning("none of its own: the node needs a plane that has bundles, or a bundle in "+bundlesDir,
			"# on the plane's computer: capstan bundle list")
	case len(from.lacks) == 0:
		return ok("kubeadm, kubelet")
	}
	return missing("no "+strings.Join(from.lacks, " and "),
		"# install kubeadm and kubelet of the clusters' version: see kubernetes.io, Installing kubeadm")
}

// of returns " of Kubernetes VERSION"; empty without a version.
func of(version string) string {
	if version == "" {
		return ""
	}
	return " of Kubernetes " + version
}

// probed asks the server that provides bundles whether it has the bundle that the node needs.
func probed(role Role, policy v1beta2.BundlePolicy, where string) Finding {
	err := role.enrolment.Probe(policy, role.Kubernetes)
	text := fault.Text(err, "")
	switch {
	case text != "":
		return missing(text, "# see capstan bundle list on the plane's computer, and spec.bundles of the CapstanHost")
	case err != nil:
		return missing(where+" can't be reached: "+err.Error(), "# check addresses, firewalls, and proxy settings")
	case role.Kubernetes == "":
		return ok(where + " answers; --kubernetes VERSION asks for a bundle")
	}
	return ok("come with the bundle" + of(role.Kubernetes) + " of " + where)
}

// verified reads bundles on the host and compares them with their manifests.
func (s *System) verified(bundles []string) Finding {
	for _, name := range bundles {
		path := filepath.Join(bundlesDir, name)
		if err := verify(s.path(path)); err != nil {
			return missing(path+": "+err.Error(), "rm -r "+path+"   # and copy or fetch it again")
		}
	}
	return ok("bundles of " + strings.Join(bundles, ", "))
}

// verify compares an archive, or the directory of an unpacked one, with its manifest. Bundles for local hosts have no
// manifest.
func verify(path string) error {
	if !strings.HasSuffix(path, ".tar.gz") {
		_, err := bundlefile.CheckDirectory(path)
		if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bundlefile.ErrDamaged) {
			return nil
		}
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = bundlefile.Verify(file)
	return err
}

// plane checks that the management cluster answers this host.
func plane(_ *System, role Role) Finding {
	switch {
	case errors.Is(role.unreached, fs.ErrPermission):
		return unknown("only root can read the agent's configuration", "sudo capstan-agent preflight")
	case role.unreached != nil:
		return missing(role.unreached.Error(), "journalctl -u capstan-agent -n 20")
	case role.enrolment == nil:
		return ok("this computer has not enrolled")
	}
	return ok(role.enrolment.Host + " at " + role.enrolment.Server)
}

// validBundles reports whether this source exists.
func validBundles(from string) bool {
	return slices.Contains([]string{"", fromPlane, fromDirectory, fromPackages}, from)
}
