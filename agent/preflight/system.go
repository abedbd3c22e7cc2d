package preflight

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// fileLimit bounds how much of a file is read, in bytes.
const fileLimit = 4 << 20

// System is the computer to examine.
type System struct {
	// Root is the root directory for all paths; if it is empty, paths start at the computer's own root directory.
	Root string
	// User is the user id of the caller.
	User int
	// Architecture is the architecture, by Go's name.
	Architecture string
	// Processors is the number of logical processors.
	Processors int
	// Release is the kernel's release.
	Release string
	// Synchronized reports whether something keeps the clock synchronized.
	Synchronized func() (bool, error)
	// Free returns the number of free bytes in the file system of a path.
	Free func(path string) (uint64, error)
	// Chains returns the nftables chains that see packets first.
	Chains func() ([]Chain, error)
	// Enrolment asks the management cluster about this computer. It returns nil if the computer has not enrolled.
	// Enrolment itself may be nil.
	Enrolment func() (*Enrolment, error)
}

// Enrolment is what the management cluster knows about this computer.
type Enrolment struct {
	// Host is the CapstanHost, as NAMESPACE/NAME; Server is the URL of the API server.
	Host, Server string
	// Bundles says where the programs of a node come from: the policy in the present claim, or without a claim, the policy
	// in the spec of the CapstanHost.
	Bundles v1beta2.BundlePolicy
	// Kubernetes is the version of the claim; it is empty if there is none.
	Kubernetes string
	// Probe asks the plane or mirror of a policy for the bundle of a version. If the version is empty, Probe only checks
	// that the plane or mirror answers.
	Probe func(policy v1beta2.BundlePolicy, version string) error
}

// Chain is an nftables chain that is attached to a hook of the kernel.
type Chain struct {
	// Family and Table are named as in nft.
	Family, Table string
	// Name is the chain's name; Hook is its hook, such as input or forward.
	Name, Hook string
	// Drops reports whether the chain drops packets that no rule accepts.
	Drops bool
}

// programDirs are the directories to search for programs.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

func (s *System) path(path string) string { return filepath.Join(s.Root, "/", path) }

// text returns the trimmed contents of a file; empty if it can't be read.
func (s *System) text(path string) string {
	f, err := os.Open(s.path(path))
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileLimit))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// exists reports whether a path exists.
func (s *System) exists(path string) bool {
	_, err := os.Stat(s.path(path))
	return err == nil
}

// entries returns the names in a directory.
func (s *System) entries(path string) []string {
	list, err := os.ReadDir(s.path(path))
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// program reports whether a program with this name exists.
func (s *System) program(name string) bool {
	return slices.ContainsFunc(programDirs, func(dir string) bool {
		info, err := os.Stat(s.path(filepath.Join(dir, name)))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}

// like reports whether the distribution has one of the names, or declares itself similar to a distribution with one of
// them.
func (s *System) like(names ...string) bool {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		text := s.text(path)
		if text == "" {
			continue
		}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if key != "ID" && key != "ID_LIKE" {
				continue
			}
			for _, one := range strings.Fields(strings.Trim(value, `"'`)) {
				if slices.Contains(names, one) {
					return true
				}
			}
		}
		return false
	}
	return false
}

func (s *System) debian() bool { return s.like("debian", "ubuntu") }
func (s *System) redHat() bool { return s.like("rhel", "fedora", "centos") }

// install returns the command that installs packages; debian and redHat are their names in the two families of
// distributions.
func (s *System) install(debian, redHat string) string {
	switch {
	case s.debian():
		return "apt-get install -y " + debian
	case s.redHat():
		return "dnf install -y " + redHat
	default:
		return "# install what your distribution calls " + debian
	}
}

// remove returns the command that removes a package.
func (s *System) remove(name string) string {
	switch {
	case s.debian():
		return "apt-get remove -y " + name
	case s.redHat():
		return "dnf remove -y " + name
	default:
		return "# remove the package " + name
	}
}

// kernelArgument returns the command that adds an argument to the kernel's command line.
func (s *System) kernelArgument(argument string) string {
	switch {
	case s.debian():
		return `mkdir -p /etc/default/grub.d && echo 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX ` + argument +
			`"' >> /etc/default/grub.d/capstan.cfg && update-grub && reboot`
	case s.redHat():
		return "grubby --update-kernel=ALL --args=" + argument + " && reboot"
	default:
		return "# add " + argument + " to the kernel's command line and reboot"
	}
}
