package layer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/image/layer"
)

// dir, file, link, hard and so on are entries of a layer.
func dir(name string) *tar.Header {
	return &tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}
}

func file(name, data string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data)), Linkname: data}
}

func link(name, to string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
}

func hard(name, to string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}
}

func with(h *tar.Header, change func(*tar.Header)) *tar.Header {
	change(h)
	return h
}

// pack writes a layer. The content of a file is in Linkname, where the function file has stored it.
func pack(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		c := *h
		data := ""
		if c.Typeflag == tar.TypeReg {
			data, c.Linkname = c.Linkname, ""
		}
		if c.ModTime.IsZero() {
			c.ModTime = time.Unix(1_000_000_000, 0)
		}
		c.Format = tar.FormatPAX
		if err := w.WriteHeader(&c); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// show lists a directory, one line for each file, with what overlayfs reads from it.
func show(t testing.TB, root string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			line := fmt.Sprintf("%s/ %o", name, info.Mode().Perm())
			var value [1]byte
			if n, err := unix.Getxattr(path, layer.Opaque, value[:]); err == nil && string(value[:n]) == "y" {
				line += " opaque"
			}
			lines = append(lines, line)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			lines = append(lines, name+" -> "+to)
			return err
		case info.Mode()&fs.ModeCharDevice != 0 && info.Sys().(*syscall.Stat_t).Rdev == 0:
			lines = append(lines, name+" removed")
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			lines = append(lines, fmt.Sprintf("%s %o %s", name, info.Mode().Perm(), data))
			return err
		default:
			lines = append(lines, name+" "+info.Mode().String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// allow lets an ordinary user remove the test's directory, whatever modes an image sets on directories.
func allow(t testing.TB, dir string) {
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
}

// unpack unpacks layers on top of each other, and returns the directory and the result of the last one.
func unpack(t testing.TB, o layer.Options, layers ...[]byte) (string, layer.Result, error) {
	t.Helper()
	for i, data := range layers {
		at := filepath.Join(t.TempDir(), "layer")
		allow(t, at)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		result, err := layer.Unpack(context.Background(), bytes.NewReader(data), at, o)
		if err != nil || i == len(layers)-1 {
			return at, result, err
		}
		o.Parents = append(slices.Clone(o.Parents), at)
	}
	return "", layer.Result{}, nil
}

func TestUnpack(t *testing.T) {
	base := []*tar.Header{dir("usr"), dir("usr/bin"), file("usr/bin/sh", "#!"), link("bin", "usr/bin"),
		with(dir("tmp"), func(h *tar.Header) { h.Mode = 0o1777 })}
	for name, c := range map[string]struct {
		layers  [][]*tar.Header
		want    string
		depends bool
	}{
		"files, directories and links": {
			layers: [][]*tar.Header{{dir("a"), file("a/b", "x"), link("c", "/a/b"), hard("d", "a/b"),
				{Name: "f", Typeflag: tar.TypeFifo, Mode: 0o600}}},
			want: "a/ 755\na/b 644 x\nc -> /a/b\nd 644 x\nf prw-------",
		},
		"directories that the layer does not describe": {
			layers: [][]*tar.Header{{file("a/b/c", "x")}}, want: "a/ 755\na/b/ 755\na/b/c 644 x",
		},
		"a directory of a lower layer keeps its mode": {
			layers: [][]*tar.Header{base, {file("tmp/x", "x")}}, want: "tmp/ 777\ntmp/x 644 x", depends: true,
		},
		"a file follows a link of a lower layer": {
			layers: [][]*tar.Header{base, {file("bin/ls", "x")}}, depends: true,
			want: "usr/ 755\nusr/bin/ 755\nusr/bin/ls 644 x",
		},
		"a file follows a link of its own layer": {
			layers: [][]*tar.Header{{dir("x"), link("y", "/x"), file("y/z", "1")}}, want: "x/ 755\nx/z 644 1\ny -> /x",
		},
		"a file is removed": {
			layers: [][]*tar.Header{base, {dir("usr"), dir("usr/bin"), file("usr/bin/.wh.sh", "")}},
			want:   "usr/ 755\nusr/bin/ 755\nusr/bin/sh removed",
		},
		"a directory hides the lower layers": {
			layers: [][]*tar.Header{base, {dir("usr"), file("usr/.wh..wh..opq", ""), file("usr/x", "1")}},
			want:   "usr/ 755 opaque\nusr/x 644 1",
		},
		"a directory is removed and created again": {
			layers: [][]*tar.Header{base, {file(".wh.usr", ""), dir("usr"), file("usr/x", "1")}},
			want:   "usr/ 755 opaque\nusr/x 644 1",
		},
		"a directory is created before the old one is removed": {
			layers: [][]*tar.Header{base, {dir("usr"), file("usr/x", "1"), file(".wh.usr", "")}},
			want:   "usr/ 755 opaque\nusr/x 644 1",
		},
		"a file in a removed directory does not bring back the old content": {
			layers: [][]*tar.Header{base, {file(".wh.tmp", ""), file("tmp/x", "1")}},
			want:   "tmp/ 755 opaque\ntmp/x 644 1",
		},
		"a file replaces a directory of the layer": {
			layers: [][]*tar.Header{{dir("a"), file("a/b", "1"), file("a", "2")}}, want: "a 644 2",
		},
		"a directory replaces a file of the layer": {
			layers: [][]*tar.Header{{file("a", "2"), dir("a"), file("a/b", "1")}}, want: "a/ 755\na/b 644 1",
		},
		"the last of two files with the same name counts": {
			layers: [][]*tar.Header{{file("a", "1"), file("a", "2")}}, want: "a 644 2",
		},
		"a file replaces a link and not its target": {
			layers: [][]*tar.Header{{file("a", "1"), link("b", "a"), file("b", "2")}}, want: "a 644 1\nb 644 2",
		},
		"directories that deny their owner access": {
			layers: [][]*tar.Header{{with(dir("a"), func(h *tar.Header) { h.Mode = 0o500 }), file("a/b", "1")}},
			want:   "a/ 500\na/b 644 1",
		},
		"files of aufs are skipped": {
			layers: [][]*tar.Header{{dir(".wh..wh.plnk"), file(".wh..wh.aufs", ""), file("a", "1")}}, want: "a 644 1",
		},
		"names that begin with a slash or a dot": {
			layers: [][]*tar.Header{{dir("./"), file("/a", "1"), file("./b", "2")}}, want: "a 644 1\nb 644 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range c.layers {
				layers = append(layers, pack(t, l...))
			}
			at, result, err := unpack(t, layer.Options{}, layers...)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, at); got != c.want {
				t.Errorf("unpacked to\n%s\nwant\n%s", got, c.want)
			}
			if result.Depends != c.depends {
				t.Errorf("depends on its parents: %v, want %v", result.Depends, c.depends)
			}
		})
	}
}

func TestUnpackRefuses(t *testing.T) {
	big := file("big", "")
	deep := file(strings.Repeat("d/", 300)+"x", "")
	var many []*tar.Header
	for i := range 20 {
		many = append(many, file(fmt.Sprintf("f%d", i), ""))
	}
	for name, c := range map[string]struct {
		entries []*tar.Header
		want    string
	}{
		"a name that leads out of the image": {
			[]*tar.Header{file("a/../../etc/passwd", "x")},
			"leads out of the image",
		},
		"a name that is only ..": {[]*tar.Header{dir("..")}, "leads out of the image"},
		"a link that leads out, and a file": {
			[]*tar.Header{link("a", "../../.."), file("a/x", "x")},
			"leads out of the image",
		},
		"a hard link that leads out":        {[]*tar.Header{hard("a", "../../etc/passwd")}, "leads out of the image"},
		"a hard link to the machine's file": {[]*tar.Header{hard("a", "/etc/passwd")}, "not in its layer"},
		"a hard link to a removed file":     {[]*tar.Header{file(".wh.b", ""), hard("a", "b")}, "not in its layer"},
		"links that lead to each other": {
			[]*tar.Header{link("a", "b"), link("b", "a"), file("a/x", "")},
			"more than 40 links",
		},
		"a character device": {
			[]*tar.Header{{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
			"is a device",
		},
		"a mark of overlayfs": {[]*tar.Header{{Name: "x", Typeflag: tar.TypeChar}}, "is a device"},
		"a disk": {
			[]*tar.Header{{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}},
			"is a device",
		},
		"a mark that removes the parent":    {[]*tar.Header{file("a/.wh...", "")}, "removes no file"},
		"a mark that removes its directory": {[]*tar.Header{file("a/.wh..", "")}, "removes no file"},
		"a mark that removes nothing":       {[]*tar.Header{file("a/.wh.", "")}, "removes no file"},
		"a root that is a link":             {[]*tar.Header{link("./", "/etc")}, "root is not a directory"},
		"a file that is also a directory": {
			[]*tar.Header{file("a", "1"), file("a/b", "2")},
			"is a file and a directory",
		},
		"a name that is too long": {[]*tar.Header{file(strings.Repeat("n", 300), "")}, "at most 255"},
		"a path that is too long": {
			[]*tar.Header{file(strings.Repeat("n/", 2100)+"x", "")},
			"at most 4000",
		},
		"directories that are too deep": {[]*tar.Header{deep}, "directories deep"},
		"a link to a name that is too long": {
			[]*tar.Header{link("a", strings.Repeat("n/", 2100))},
			"leads to a name",
		},
		"too many files":  {many, "more than 10 files"},
		"an unknown kind": {[]*tar.Header{{Name: "x", Typeflag: 'Z'}}, "unknown type"},
		"too many bytes":  {[]*tar.Header{big}, "holds more than"},
		"too many bytes in two files": {
			[]*tar.Header{file("a", strings.Repeat("x", 600)), file("b", strings.Repeat("x", 600))},
			"holds more than",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(c.entries, big) {
				c.entries = []*tar.Header{file("big", strings.Repeat("x", 1025))}
			}
			at, _, err := unpack(t, layer.Options{Limits: layer.Limits{Entries: 10, Bytes: 1024}}, pack(t, c.entries...))
			if !layer.IsRefused(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(at), "*")); len(left) != 1 {
				t.Errorf("files were written next to the layer: %v", left)
			}
		})
	}
}

// An image must not set attributes that overlayfs reads: it could show files of other layers, or hide its own.
func TestUnpackKeepsAttributesAwayFromOverlayfs(t *testing.T) {
	h := file("a", "1")
	h.PAXRecords = map[string]string{
		"SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.user.mine": "yes", "SCHILY.xattr.trusted.x": "1",
	}
	at, _, err := unpack(t, layer.Options{}, pack(t, h))
	if err != nil {
		t.Fatal(err)
	}
	list := make([]byte, 1024)
	n, err := unix.Listxattr(filepath.Join(at, "a"), list)
	if err != nil {
		t.Fatal(err)
	}
	names := string(list[:n])
	if !strings.Contains(names, "user.mine") || strings.Contains(names, "overlay") || strings.Contains(names, "trusted") {
		t.Errorf("the file has the attributes %q", names)
	}
}

func TestUnpackWithOneIDRecordsOwners(t *testing.T) {
	owned := with(file("a", "1"), func(h *tar.Header) {
		h.Uid, h.Gid = 999, 998
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "cap"}
	})
	far := with(dir("d"), func(h *tar.Header) { h.Uid = 1 << 20 })
	at, result, err := unpack(t, layer.Options{}, pack(t, owned, far, file("mine", "")))
	if err != nil {
		t.Fatal(err)
	}
	want := []layer.Owner{{Path: "a", UID: 999, GID: 998, Capabilities: []byte("cap")}, {Path: "d", UID: layer.Nobody}}
	if !slices.EqualFunc(result.Owners, want, func(a, b layer.Owner) bool {
		return a.Path == b.Path && a.UID == b.UID && a.GID == b.GID && bytes.Equal(a.Capabilities, b.Capabilities)
	}) {
		t.Errorf("owners %+v, want %+v", result.Owners, want)
	}
	if info, err := os.Stat(filepath.Join(at, "a")); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("the file does not belong to the caller: %v", err)
	}
}

func TestUnpackWithAllIDsGivesFilesToTheirOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("an ordinary user can't give files away: the test above covers that")
		return
	}
	owned := with(file("a", "1"), func(h *tar.Header) { h.Uid, h.Gid, h.Mode = 999, 998, 0o4755 })
	at, result, err := unpack(t, layer.Options{AllIDs: true}, pack(t, owned))
	if err != nil || len(result.Owners) > 0 {
		t.Fatal(result.Owners, err)
	}
	info, err := os.Stat(filepath.Join(at, "a"))
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != 999 || st.Gid != 998 || info.Mode()&fs.ModeSetuid == 0 {
		t.Errorf("the file has mode %v and belongs to %d:%d", info.Mode(), st.Uid, st.Gid)
	}
}

func TestUnpackStopsWhenThereIsNoRoom(t *testing.T) {
	full := errors.New("no room")
	o := layer.Options{Room: func() error { return full }}
	_, _, err := unpack(t, o, pack(t, file("a", strings.Repeat("x", 20<<20))))
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

func TestUnpackSaysThatALayerIsCutOff(t *testing.T) {
	whole := pack(t, file("a", strings.Repeat("x", 4000)))
	for _, n := range []int{100, 700, 3000} {
		_, _, err := unpack(t, layer.Options{}, whole[:n])
		if !layer.IsRefused(err) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("after %d bytes: error %v", n, err)
		}
	}
}

// FuzzUnpack checks that a layer of any content writes nothing outside its directory and creates no devices.
func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, dir("a"), file("a/b", "x"), link("c", "../.."), file("c/d", "y")))
	f.Add(pack(f, file("a/.wh.b", ""), file(".wh..wh..opq", ""), hard("x", "a/b")))
	f.Add(pack(f, link("a", "/"), dir("a/x"), file("a", "1"), dir("a")))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		allow(t, top)
		for _, name := range []string{"layer", "below"} {
			if err := os.Mkdir(filepath.Join(top, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/nowhere", filepath.Join(top, "below", "l")); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(top, "layer")
		o := layer.Options{Parents: []string{filepath.Join(top, "below")}, Limits: layer.Limits{Bytes: 1 << 20, Entries: 100}}
		_, _ = layer.Unpack(context.Background(), bytes.NewReader(data), at, o) // it may refuse
		if left, err := os.ReadDir(top); err != nil || len(left) != 2 {
			t.Errorf("files were written next to the layer: %v, %v", left, err)
		}
		if left, err := os.ReadDir(filepath.Join(top, "below")); err != nil || len(left) != 1 {
			t.Errorf("files were written into the layer below: %v, %v", left, err)
		}
		_ = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // a directory that denies its owner access
			}
			info, err := d.Info()
			if err == nil && info.Mode()&fs.ModeDevice != 0 && info.Sys().(*syscall.Stat_t).Rdev != 0 {
				t.Errorf("%s is a device", path)
			}
			return nil
		})
	})
}
