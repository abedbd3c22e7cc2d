//go:build linux

package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestDist checks a release built into the directory that CAPSTAN_TEST_DIST names: make test-release.
func TestDist(t *testing.T) {
	dist := os.Getenv("CAPSTAN_TEST_DIST")
	if dist == "" {
		t.Skip("for make test-release: CAPSTAN_TEST_DIST names the directory of a release")
	}
	versions, err := filepath.Glob(filepath.Join(dist, "binaries", "v*"))
	if err != nil || len(versions) != 1 {
		t.Fatalf("%s has the versions %v, want one: %v", dist, versions, err)
	}
	version := filepath.Base(versions[0])
	t.Run("checksums", func(t *testing.T) { checkSums(t, dist) })
	t.Run("bill of materials", func(t *testing.T) {
		checkBill(t, filepath.Join(versions[0], "capstan.cdx.json"), version)
	})
	for name, run := range map[string][][]string{
		"capstan-manager":   {{"/capstan-manager", "--version"}, {"/capstan-manager", "--help"}},
		"capstan-extension": {{"/capstan-extension", "--version"}, {"/capstan-kube", "etcd", "--version"}},
	} {
		t.Run(name, func(t *testing.T) { checkImage(t, filepath.Join(dist, "images", version, name+".oci.tar"), name, run) })
	}
	t.Run("archive", func(t *testing.T) {
		checkArchive(t, filepath.Join(versions[0], fmt.Sprintf("capstan-%s-linux-%s.tar.gz", version, runtime.GOARCH)),
			"capstan-"+version)
	})
}

// checkSums checks that each file is in the list, with its checksum.
func checkSums(t *testing.T, dist string) {
	text, err := os.Open(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	listed := map[string]string{"SHA256SUMS": ""}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		listed[name] = sum
	}
	found := 0
	err = filepath.WalkDir(dist, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dist, file)
		if err != nil {
			return err
		}
		want, ok := listed[filepath.ToSlash(name)]
		if !ok {
			t.Errorf("%s is not listed", name)
		}
		if found++; want == "" {
			return nil
		}
		content, err := os.Open(file)
		if err != nil {
			return err
		}
		defer content.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, content); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want {
			t.Errorf("%s has the checksum %s, but is listed with %s", name, got, want)
		}
		return nil
	})
	if err != nil || found != len(listed) {
		t.Errorf("found %d files, but %d are listed: %v", found, len(listed), err)
	}
}

// checkBill checks that the bill of materials is readable and lists what the programs contain.
func checkBill(t *testing.T, file, version string) {
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	bill := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(text, cyclonedx.BOMFileFormatJSON).Decode(bill); err != nil {
		t.Fatal(err)
	}
	if bill.Metadata.Component.Version != version || bill.SerialNumber == "" {
		t.Errorf("the bill of materials is of version %s, with serial number %q",
			bill.Metadata.Component.Version, bill.SerialNumber)
	}
	wanted := map[string]bool{
		"stdlib": true, "sigs.k8s.io/cluster-api": true, "k8s.io/kubernetes": true, "go.etcd.io/etcd/server/v3": true,
		"sigs.k8s.io/controller-runtime": true,
	}
	seen := map[string]bool{}
	for _, c := range *bill.Components {
		if seen[c.BOMRef] || c.Version == "" {
			t.Errorf("component %s is listed twice, or has no version", c.BOMRef)
		}
		seen[c.BOMRef] = true
		delete(wanted, c.Name)
	}
	if len(wanted) > 0 {
		t.Errorf("of %d components these are missing: %v", len(seen), wanted)
	}
}

// checkImage checks that the image is valid and does not run as root. It also runs the image's programs as the image's
// user, with only the content of the image as their file system.
func checkImage(t *testing.T, file, name string, run [][]string) {
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(untar(t, archive))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("the archive has %+v, %v", top, err)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, m := range manifests.Manifests {
		one, err := inner.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := one.ConfigFile()
		if err != nil || config.Config.User != fmt.Sprintf("%d:%d", NonRoot, NonRoot) || len(config.Config.Entrypoint) != 1 ||
			config.Config.Entrypoint[0] != "/"+name {
			t.Errorf("the configuration for %s is %+v, %v", m.Platform.Architecture, config, err)
		}
		if m.Platform.Architecture != runtime.GOARCH || os.Geteuid() != 0 {
			continue
		}
		root := rootOf(t, one)
		for _, args := range run {
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Path, cmd.Dir, cmd.Env = args[0], "/", []string{}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: NonRoot, Gid: NonRoot}}
			if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
				t.Errorf("%v in the image: %v\n%s", args, err, out)
			} else {
				first, _, _ := strings.Cut(string(out), "\n")
				t.Logf("%v: %s", args, first)
			}
			ran++
		}
	}
	t.Logf("%d images, %d programs run", len(manifests.Manifests), ran)
}

// rootOf unpacks an image.
func rootOf(t *testing.T, one v1.Image) string {
	t.Helper()
	content := mutate.Extract(one)
	defer content.Close()
	root := t.TempDir()
	unpack(t, content, root)
	for dir := root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the image's user needs access
			t.Fatal(err)
		}
	}
	return root
}

// unpack unpacks a tar archive with the modes of its files.
func unpack(t *testing.T, content io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			err = write(to, r, os.FileMode(h.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(to string, content io.Reader, mode os.FileMode) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// checkArchive unpacks the binary archive in an empty directory and creates a cluster from there.
func checkArchive(t *testing.T, file, directory string) {
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	content, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, content, dir)
	home := filepath.Join(t.TempDir(), "home")
	capstan := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		cmd := exec.Command("./capstan", args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Join(dir, directory),
			[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "CAPSTAN_HOME=" + home}, &out, &out
		if err := cmd.Run(); err != nil {
			t.Errorf("capstan %s: %v\n%s", strings.Join(args, " "), err, out.String())
		}
	}
	defer capstan("down", "--delete")
	for _, args := range []string{
		"--version", "up", "cluster create demo --workers 1", "cluster list", "cluster describe demo", "kubectl get machines",
		"cluster delete demo",
	} {
		if capstan(strings.Fields(args)...); t.Failed() {
			return
		}
	}
}
