package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Architectures are the architectures of a release, as GOARCH. The operating system is Linux.
var Architectures = []string{"amd64", "arm64"}

// Binaries are the names of the programs in a release.
var Binaries = []string{
	"capstan", "capstan-agent", "capstan-dock", "capstan-extension", "capstan-images", "capstan-manager",
}

// Settings configure the build of a release.
type Settings struct {
	// Date is the date of all files in images and of the bill of materials. Use the date of the commit to make the
	// release reproducible.
	Date time.Time
	// Architectures are the architectures to build. Default: [Architectures]. A build of fewer architectures is only for
	// trials on the machine that built it.
	Architectures []string
	// Flags are additional flags for go build. Pass -trimpath to keep the path of the source tree out of the binaries.
	Flags []string
	// Progress is called with what is being built. It may be nil.
	Progress func(what string)
}

// Build builds the whole release in the directory out: the provider repository; binaries/VERSION with the binaries, an
// archive of them, the Kubernetes bundle for each architecture and the bill of materials; and images/VERSION.
// out/SHA256SUMS lists everything. Compiling takes minutes.
func Build(ctx context.Context, o Options, s Settings, out string) error {
	if s.Progress == nil {
		s.Progress = func(string) {}
	}
	if len(s.Architectures) == 0 {
		s.Architectures = Architectures
	}
	for _, arch := range s.Architectures {
		if !slices.Contains(Architectures, arch) {
			return fmt.Errorf("a release is not for architecture %q: it is for %s", arch, strings.Join(Architectures, " and "))
		}
	}
	files, err := Repository(o)
	if err != nil {
		return err
	}
	built := map[string]map[string]string{}
	var all []string
	tmp, err := os.MkdirTemp("", "capstan-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, name := range Binaries {
		built[name] = map[string]string{}
		for _, arch := range s.Architectures {
			file := path.Join("binaries", o.Version, name+"-linux-"+arch)
			s.Progress(name + " for " + arch)
			built[name][arch] = filepath.Join(out, file)
			if err := compile(ctx, o, s, name, arch, built[name][arch]); err != nil {
				return err
			}
			all = append(all, built[name][arch])
			if files[file], err = os.ReadFile(built[name][arch]); err != nil {
				return err
			}
		}
	}
	kubes := map[string]string{}
	for _, arch := range s.Architectures {
		s.Progress("the Kubernetes bundle and the archive for " + arch)
		version, kube, err := bundle(ctx, o, s, arch, filepath.Join(tmp, arch))
		if err != nil {
			return err
		}
		runner, nft := filepath.Join(filepath.Dir(kube), "capstan-run"), filepath.Join(filepath.Dir(kube), "capstan-nft")
		all, kubes[arch] = append(all, kube, runner, nft), kube
		programs := []program{
			{path.Join("bundles", version, "capstan-kube"), kube, 0o755},
			{path.Join("bundles", version, "capstan-run"), runner, 0o755},
			{path.Join("bundles", version, "capstan-nft"), nft, 0o755},
			{"LICENSE", filepath.Join(o.Source, "LICENSE"), 0o644}, {"README.md", filepath.Join(o.Source, "README.md"), 0o644},
		}
		for _, name := range Binaries {
			programs = append(programs, program{name, built[name][arch], 0o755})
		}
		if files[path.Join("binaries", o.Version, fmt.Sprintf("capstan-%s-linux-%s.tar.gz", o.Version, arch))], err = packed(
			o.Version, s.Date, programs); err != nil {
			return err
		}
	}
	s.Progress("images, bill of materials, checksums")
	for _, name := range Images {
		programs := map[string][]program{}
		for _, arch := range s.Architectures {
			programs[arch] = []program{{name, built[name][arch], 0o755}}
			if name == extensionImage { // it verifies backups with the bundle's etcd
				programs[arch] = append(programs[arch], program{"capstan-kube", kubes[arch], 0o755})
			}
		}
		if files[path.Join("images", o.Version, name+".oci.tar")], err = image(o, name, programs, s.Date); err != nil {
			return err
		}
	}
	if files[path.Join("binaries", o.Version, "capstan.cdx.json")], err = bill(o.Version, all, s.Date); err != nil {
		return err
	}
	files["SHA256SUMS"] = sums(files)
	return Write(files, out)
}

// compile builds one static binary.
func compile(ctx context.Context, o Options, s Settings, name, arch, file string) error {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version=" + o.Version, "-o",
		absolute}, s.Flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = o.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", name, arch, err, text)
	}
	return nil
}

// bundle builds capstan-kube for the default Kubernetes version, with its companion files, in one directory.
func bundle(ctx context.Context, o Options, s Settings, arch, dir string) (version, file string, err error) {
	text, err := os.ReadFile(filepath.Join(o.Source, "kube", "DEFAULT_VERSION"))
	if err != nil {
		return "", "", fmt.Errorf("reading which Kubernetes version is the default: %w", err)
	}
	version = strings.TrimSpace(string(text))
	cmd := exec.CommandContext(ctx, filepath.Join(o.Source, "kube", "build"), version, dir)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "KUBE_BUILD_FLAGS="+strings.Join(s.Flags, " "))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building the Kubernetes bundle for %s: %w\n%s", arch, err, text)
	}
	return version, filepath.Join(dir, version, "capstan-kube"), nil
}

// Write writes files below the directory out. Binaries are executable.
func Write(files Files, out string) error {
	for name, data := range files {
		file, mode := filepath.Join(out, filepath.FromSlash(name)), os.FileMode(0o644)
		if path.Dir(path.Dir(name)) == "binaries" && path.Ext(name) != ".json" && path.Ext(name) != ".gz" {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, mode); err != nil {
			return err
		}
	}
	return nil
}
