package build

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/image"
)

// entries lists the headers of the layer of a directory.
func entries(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	l := &layer{tar: tar.NewWriter(&out), epoch: time.Unix(0, 0)}
	if err := errors.Join(l.directory(dir), l.tar.Close()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(lines, "\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s belongs to %d:%d and has the time %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		lines = append(lines, strings.TrimSpace(h.Name+" "+os.FileMode(h.Mode&0o777).String()+" "+h.Linkname))
	}
}

func TestADirectoryIsTheSameWhereverItIs(t *testing.T) {
	var images [][]byte
	for i, mode := range []os.FileMode{0o600, 0o664} {
		dir := t.TempDir()
		if err := errors.Join(
			os.MkdirAll(filepath.Join(dir, "bin"), 0o700),
			os.WriteFile(filepath.Join(dir, "bin", "run"), []byte("#!"), 0o700|mode),
			os.WriteFile(filepath.Join(dir, "text"), []byte("x"), mode),
			os.Symlink("bin/run", filepath.Join(dir, "link")),
			os.Chtimes(filepath.Join(dir, "text"), time.Now(), time.Unix(int64(i), 0)),
		); err != nil {
			t.Fatal(err)
		}
		want := "bin/ -rwxr-xr-x\nbin/run -rwxr-xr-x\nlink -rwxrwxrwx bin/run\ntext -rw-r--r--"
		if got := entries(t, dir); got != want {
			t.Errorf("the layer has\n%s\nwant\n%s", got, want)
		}
		var out bytes.Buffer
		if err := Build(Options{Name: "web:1", Path: dir, Entrypoint: []string{"/bin/run"}}, &out); err != nil {
			t.Fatal(err)
		}
		images = append(images, out.Bytes())
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images of the same files differ")
	}
}

func TestBuildRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"a script":             {Options{Name: "web:1", Path: text}, "not a program for Linux"},
		"a name with a digest": {Options{Name: "web@sha256:" + strings.Repeat("a", 64), Path: dir}, "names a digest"},
		"an invalid name":      {Options{Name: "WEB:1", Path: dir}, "not the name of an image"},
		"a missing file":       {Options{Name: "web:1", Path: filepath.Join(dir, "nosuch")}, "no such file"},
	} {
		err := Build(c.o, io.Discard)
		var typed *image.Error
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			c.want != "no such file" && (!errors.As(err, &typed) || typed.Advice == "") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTheConfigurationIsSane(t *testing.T) {
	c := configOf(Options{User: DefaultUser, Entrypoint: []string{"/web"}}, "amd64", time.Unix(0, 0).UTC(), "sha256:x")
	run := c["config"].(map[string]any)
	if run["User"] != "65532:65532" || run["WorkingDir"] != "/" || !strings.HasPrefix(run["Env"].([]string)[0], "PATH=") {
		t.Errorf("the configuration is %+v", run)
	}
	c = configOf(Options{Env: []string{"PATH=/x"}}, "amd64", time.Unix(0, 0).UTC(), "sha256:x")
	own := c["config"].(map[string]any)
	if env := own["Env"].([]string); len(env) != 1 || own["User"] != nil {
		t.Errorf("the configuration is %+v", own)
	}
}
