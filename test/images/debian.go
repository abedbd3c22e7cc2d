package images

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debian downloads packages with the machine's own apt, which checks their signatures. It installs nothing.
type debian struct {
	// dir holds apt's files, and the packages.
	dir string
	// machine is the directory with the machine's lists of packages. The default is /var/lib/apt/lists.
	machine string
	// fresh says that new lists are needed, because the archive no longer has the versions in the machine's lists.
	// updated is true once the new lists were downloaded.
	fresh, updated bool
	// locked maps each requested set of packages to the packages downloaded for it. changed is true once a set was
	// added.
	locked  map[string][]pinned
	changed bool
	leftOut []string
}

// pinned is a downloaded package.
type pinned struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// lists is the directory with the machine's lists of packages.
const lists = "/var/lib/apt/lists"

// options returns options that make apt work in our directory, for any user, as if nothing were installed.
func (d *debian) options(ctx context.Context) ([]string, error) {
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(d.dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	status := filepath.Join(d.dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	options := []string{
		"-qq", "-y", "-o", "Debug::NoLocking=1", "-o", "APT::Install-Recommends=0", "-o", "APT::Sandbox::User=root",
		"-o", "Dir::State::status=" + status, "-o", "Dir::Cache=" + filepath.Join(d.dir, "cache"),
	}
	if found, _ := filepath.Glob(cmp.Or(d.machine, lists) + "/*_Packages*"); len(found) > 0 && !d.fresh {
		return options, nil
	}
	options = append(options, "-o", "Dir::State::lists="+filepath.Join(d.dir, "state", "lists"))
	own, _ := filepath.Glob(filepath.Join(d.dir, "state/lists/*_Packages*"))
	if len(own) > 0 && (!d.fresh || d.updated) {
		return options, nil
	}
	_, err := apt(ctx, append(options, "update")...)
	d.updated = err == nil
	return options, err
}

func apt(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("apt-get is missing: the test images are made from Debian's packages, on Debian")
	}
	if err != nil {
		return nil, fmt.Errorf("apt-get: %w: %s", err, said.Bytes())
	}
	return out, nil
}

// get returns the files of packages and of all their dependencies.
func (d *debian) get(ctx context.Context, packages []string) ([]string, error) {
	wish := strings.Join(slices.Sorted(slices.Values(packages)), " ")
	have, is := d.locked[wish]
	if !is || !d.downloaded(have) {
		taken, err := d.download(ctx, packages)
		if err != nil {
			return nil, err
		}
		if is && !slices.Equal(taken, have) {
			return nil, fmt.Errorf(
				"the packages for %q differ from those in packages.lock: remove that file",
				wish,
			)
		}
		d.locked[wish], d.changed, have = taken, true, taken
	}
	var files []string
	for _, p := range have {
		name, _, _ := strings.Cut(p.File, "_")
		if !slices.Contains(d.leftOut, name) {
			files = append(files, d.archive(p.File))
		}
	}
	return files, nil
}

func (d *debian) archive(file string) string { return filepath.Join(d.dir, "cache", "archives", file) }

// downloaded reports whether packages are already downloaded, unchanged.
func (d *debian) downloaded(all []pinned) bool {
	for _, p := range all {
		if sum, err := sumOf(d.archive(p.File)); err != nil || sum != p.SHA256 {
			return false
		}
	}
	return true
}

// download downloads packages. If that fails with the machine's lists of packages, it downloads its own lists and tries
// again.
func (d *debian) download(ctx context.Context, packages []string) ([]pinned, error) {
	taken, err := d.downloadListed(ctx, packages)
	if err == nil || d.fresh || ctx.Err() != nil {
		return taken, err
	}
	d.fresh = true
	taken, again := d.downloadListed(ctx, packages)
	if again != nil {
		return nil, errors.Join(err, again)
	}
	return taken, nil
}

func (d *debian) downloadListed(ctx context.Context, packages []string) ([]pinned, error) {
	options, err := d.options(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := apt(ctx, slices.Concat(options, []string{"--download-only", "install"}, packages)...); err != nil {
		return nil, fmt.Errorf("downloading packages: %w", err)
	}
	simulated, err := apt(ctx, slices.Concat(options, []string{"--simulate", "install"}, packages)...)
	if err != nil {
		return nil, fmt.Errorf("finding packages: %w", err)
	}
	return d.pin(simulated)
}

// pin lists the downloaded packages.
func (d *debian) pin(simulated []byte) ([]pinned, error) {
	var all []pinned
	for line := range strings.Lines(string(simulated)) {
		fields := strings.Fields(line) // Inst NAME (VERSION ORIGIN [ARCHITECTURE])
		if len(fields) < 4 || fields[0] != "Inst" {
			continue
		}
		version := strings.ReplaceAll(strings.TrimPrefix(fields[2], "("), ":", "%3a")
		found, err := filepath.Glob(d.archive(fields[1] + "_" + version + "_*.deb"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("package %s %s was not downloaded", fields[1], version)
		}
		sum, err := sumOf(found[0])
		if err != nil {
			return nil, err
		}
		all = append(all, pinned{filepath.Base(found[0]), sum})
	}
	if len(all) == 0 {
		return nil, errors.New("apt-get names no packages")
	}
	return all, nil
}

func sumOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// unpack adds the files of packages to a layer.
func unpack(ctx context.Context, t *tree, debs []string) error {
	for _, deb := range debs {
		cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", deb, err)
		}
		unpackErr := t.unpack(out)
		if err := errors.Join(unpackErr, cmd.Wait()); err != nil {
			return fmt.Errorf("unpacking %s: %w: %s", deb, err, said.Bytes())
		}
	}
	return nil
}
