package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// tree holds the files of one layer, by path without a leading slash.
type tree struct {
	files map[string]file
}

// file is one file of a tree.
type file struct {
	header tar.Header
	data   []byte
}

// merged are the directories that Debian's installer replaces by links. Packages still have files below them.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// unused are files that no program reads at run time.
var unused = []string{
	"usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/lintian/",
	"usr/share/bash-completion/", "usr/share/bug/",
}

func newTree() *tree { return &tree{files: map[string]file{}} }

// place returns the path of a package's file in the tree. Pure.
func place(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(merged, first) {
		return "usr/" + name
	}
	return name
}

// unpack adds the files of a package, as dpkg-deb writes them.
func (t *tree) unpack(from io.Reader) error {
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := place(h.Name)
		if name == "" ||
			slices.ContainsFunc(unused, func(dir string) bool { return strings.HasPrefix(name+"/", dir) }) {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		kept := tar.Header{Typeflag: h.Typeflag, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, Linkname: h.Linkname}
		if h.Typeflag == tar.TypeLink {
			kept.Linkname = place(h.Linkname)
		}
		if old, is := t.files[name]; is && old.header.Typeflag == tar.TypeDir && h.Typeflag == tar.TypeDir {
			continue
		}
		t.files[name] = file{kept, data}
	}
}

// text adds a file.
func (t *tree) text(name string, mode int64, data []byte) {
	t.files[place(name)] = file{tar.Header{Typeflag: tar.TypeReg, Mode: mode}, data}
}

// dir adds a directory.
func (t *tree) dir(name string, mode int64) {
	t.files[place(name)] = file{tar.Header{Typeflag: tar.TypeDir, Mode: mode}, nil}
}

// link adds a symbolic link.
func (t *tree) link(name, target string) {
	t.files[place(name)] = file{tar.Header{Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: target}, nil}
}

// has reports whether there is a file.
func (t *tree) has(name string) bool { _, is := t.files[place(name)]; return is }

// skeleton adds what every system has, without replacing anything.
func (t *tree) skeleton(users, groups []string) {
	for _, name := range merged {
		t.files[name] = file{tar.Header{Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: "usr/" + name}, nil}
		if !t.has("usr/" + name) {
			t.dir("usr/"+name, 0o755)
		}
	}
	for name, mode := range map[string]int64{
		"etc": 0o755, "home": 0o755, "root": 0o700, "run": 0o755, "tmp": 0o1777, "var": 0o755, "var/tmp": 0o1777,
		"var/log": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "mnt": 0o755, "usr/local": 0o755,
		"usr/local/bin": 0o755,
	} {
		if !t.has(name) {
			t.dir(name, mode)
		}
	}
	t.link("var/run", "/run")
	t.text("etc/passwd", 0o644, []byte(usualUsers+lines(users)))
	t.text("etc/group", 0o644, []byte(usualGroups+lines(groups)))
	t.text("etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
}

func lines(all []string) string {
	var text strings.Builder
	for _, line := range all {
		text.WriteString(line + "\n")
	}
	return text.String()
}

// The users and groups of Debian that images use.
const (
	usualUsers = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
		"bin:x:2:2:bin:/bin:/usr/sbin/nologin\nsys:x:3:3:sys:/dev:/usr/sbin/nologin\n" +
		"mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	usualGroups = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\nmail:x:8:\nwww-data:x:33:\n" +
		"users:x:100:\nnogroup:x:65534:\n"
)

// applets adds a hard link to busybox for each of its programs that no package has. With hard links, a mount can cover
// one program without the others.
func (t *tree) applets(names []string) {
	for _, name := range names {
		if !slices.ContainsFunc(programDirs, func(dir string) bool { return t.has(dir + "/" + path.Base(name)) }) {
			t.files[place(name)] = file{tar.Header{Typeflag: tar.TypeLink, Mode: 0o755, Linkname: busybox}, nil}
		}
	}
}

// busybox is the path of busybox in Debian.
const busybox = "usr/bin/busybox"

// keepPrograms removes the programs of packages, except those with these names.
func (t *tree) keepPrograms(names []string) {
	for name, f := range t.files {
		dir, base := path.Split(name)
		if slices.Contains(programDirs, strings.TrimSuffix(dir, "/")) && f.header.Typeflag != tar.TypeDir &&
			!slices.Contains(names, base) {
			delete(t.files, name)
		}
	}
}

// programDirs are the directories with programs of packages.
var programDirs = []string{"usr/bin", "usr/sbin"}

// write writes the layer: sorted by name, with all times in 1970, and with directories before their content.
func (t *tree) write() ([]byte, error) {
	for name := range maps.Clone(t.files) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if !t.has(dir) {
				t.dir(dir, 0o755)
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for pass := range 2 { // hard links follow all files
		for _, name := range slices.Sorted(maps.Keys(t.files)) {
			f := t.files[name]
			if (f.header.Typeflag == tar.TypeLink) != (pass == 1) {
				continue
			}
			h := f.header
			h.Name, h.Size, h.ModTime, h.Format = name, int64(len(f.data)), time.Unix(0, 0), tar.FormatPAX
			if h.Typeflag == tar.TypeDir {
				h.Name += "/"
			}
			if err := w.WriteHeader(&h); err != nil {
				return nil, fmt.Errorf("packing %s: %w", name, err)
			}
			if _, err := w.Write(f.data); err != nil {
				return nil, fmt.Errorf("packing %s: %w", name, err)
			}
		}
	}
	return out.Bytes(), w.Close()
}
