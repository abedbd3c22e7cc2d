package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"
)

// Architectures are those that a release is built for, as GOARCH; the operating system is Linux.
var Architectures = []string{"amd64", "arm64"}

// Binaries are the names of the programs of a release.
var Binaries = []string{"capstan", "capstan-agent", "capstan-dock", "capstan-extension", "capstan-manager"}

// Settings say how binaries are made.
type Settings struct {
	// Date is that of all files in images and of the bill of materials. The date of the commit makes a release that others can make again.
	Date time.Time
	// Flags are further flags for go build; -trimpath keeps the path of the source tree out of the binaries.
	Flags []string
}

// Build makes the whole release in the folder out: the provider repository, binaries/VERSION, images/VERSION and, beside each other in
// binaries/VERSION, the bill of materials. SHA256SUMS in out lists everything. It compiles for minutes.
func Build(ctx context.Context, o Options, s Settings, out string) error {
	files, err := Repository(o)
	if err != nil {
		return err
	}
	built := map[string]map[string]string{}
	var all []string
	for _, name := range Binaries {
		built[name] = map[string]string{}
		for _, arch := range Architectures {
			file := path.Join("binaries", o.Version, name+"-linux-"+arch)
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
	for _, name := range Images {
		if files[path.Join("images", o.Version, name+".oci.tar")], err = image(o, name, built[name], s.Date); err != nil {
			return err
		}
	}
	if files[path.Join("binaries", o.Version, "capstan.cdx.json")], err = bill(o.Version, all, s.Date); err != nil {
		return err
	}
	files["SHA256SUMS"] = sums(files)
	return Write(files, out)
}

// compile makes one static binary.
func compile(ctx context.Context, o Options, s Settings, name, arch, file string) error {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version=" + o.Version, "-o", absolute}, s.Flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = o.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", name, arch, err, text)
	}
	return nil
}

// Write writes files below the folder out. Binaries can be executed.
func Write(files Files, out string) error {
	for name, data := range files {
		file, mode := filepath.Join(out, filepath.FromSlash(name)), os.FileMode(0o644)
		if path.Dir(path.Dir(name)) == "binaries" && path.Ext(name) != ".json" {
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
