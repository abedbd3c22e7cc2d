package preflight

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileLimit bounds what is read of a file, in bytes.
const fileLimit = 4 << 20

// System is the computer that is looked at.
type System struct {
	// Root is the directory that all paths are below; empty: the computer's own.
	Root string
	// User is the id of who looks.
	User int
	// Architecture is as Go names it.
	Architecture string
	// Processors is the number of logical processors.
	Processors int
	// Release is the kernel's.
	Release string
	// Synchronized reports whether something keeps the clock right.
	Synchronized func() (bool, error)
	// Free returns how many bytes are free in the file system of a path.
	Free func(path string) (uint64, error)
	// Chains returns the chains of nftables that see packets first.
	Chains func() ([]Chain, error)
}

// Chain is a chain of nftables that hangs at a hook of the kernel.
type Chain struct {
	// Family and Table as nft names them.
	Family, Table string
	// Name of the chain, and Hook: input, forward and others.
	Name, Hook string
	// Drops is true if it drops what no rule accepts.
	Drops bool
}

// programDirs are where programs are.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

func (s *System) path(path string) string { return filepath.Join(s.Root, "/", path) }

// text returns what is in a file, without space around it; nothing if it can't be read.
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

// exists reports whether there is something at a path.
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

// program reports whether there is a program of a name.
func (s *System) program(name string) bool {
	return slices.ContainsFunc(programDirs, func(dir string) bool {
		info, err := os.Stat(s.path(filepath.Join(dir, name)))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}

// like reports whether the distribution is one of the names, or says that it is like one.
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

// install returns the command that installs packages, by the names that the families of distributions have for them.
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
