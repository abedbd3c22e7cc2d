package apply

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// hostWithDisks returns a host with the disks sdy (partition sdy1), sdz (sdz1) and bare. Only sdy and sdz have hardware
// links. All are image files in the directory dev.
func hostWithDisks(t *testing.T) (h *Host, dev string) {
	t.Helper()
	testhost.Needs(t, "mkfs.ext4", "blkid")
	base := t.TempDir()
	oldBlock, oldLink := blockDir, linkDir
	t.Cleanup(func() { blockDir, linkDir = oldBlock, oldLink })
	blockDir, linkDir, dev = filepath.Join(base, "class"), filepath.Join(base, "by-id"), filepath.Join(base, "dev")
	check(t, os.Mkdir(blockDir, 0o755), os.Mkdir(linkDir, 0o755), os.Mkdir(dev, 0o755))
	for _, disk := range []string{"sdy", "sdz"} {
		part := filepath.Join(base, "devices", disk, disk+"1")
		check(t,
			os.MkdirAll(part, 0o755), os.WriteFile(filepath.Join(part, "partition"), []byte("1\n"), 0o644),
			os.Symlink(filepath.Dir(part), filepath.Join(blockDir, disk)),
			os.Symlink(part, filepath.Join(blockDir, disk+"1")),
			os.Symlink("../dev/"+disk, filepath.Join(linkDir, "ata-"+disk)),
			os.Symlink("../dev/"+disk, filepath.Join(linkDir, "lvm-pv-uuid-"+disk)),
		)
	}
	for _, name := range []string{"sdy", "sdy1", "sdz", "sdz1", "bare", "other"} {
		check(t, os.WriteFile(filepath.Join(dev, name), nil, 0o600), os.Truncate(filepath.Join(dev, name), 16<<20))
	}
	return newHost(t), dev
}

// swap swaps the names of two files.
func swap(t *testing.T, a, b string) {
	t.Helper()
	check(t, os.Rename(a, a+".swap"), os.Rename(b, a), os.Rename(a+".swap", b))
}

// Disks may have other names after a reboot.
func TestDevicesAreFoundAgain(t *testing.T) {
	cases := map[string]struct {
		device  string
		reboot  func(t *testing.T, dev string)
		made    []string
		unknown []string
	}{
		"a partition with the same name as before": {"sdz1", func(*testing.T, string) {}, []string{"sdz1"}, nil},
		"a partition of a disk that has another name": {"sdz1", func(t *testing.T, dev string) {
			swap(t, filepath.Join(linkDir, "ata-sdy"), filepath.Join(linkDir, "ata-sdz"))
			swap(t, filepath.Join(dev, "sdy1"), filepath.Join(dev, "sdz1"))
		}, []string{"sdy1"}, nil},
		"a disk that has another name": {"sdz", func(t *testing.T, dev string) {
			swap(t, filepath.Join(linkDir, "ata-sdy"), filepath.Join(linkDir, "ata-sdz"))
			swap(t, filepath.Join(dev, "sdy"), filepath.Join(dev, "sdz"))
		}, []string{"sdy"}, nil},
		"a disk that a command formatted again": {"sdz", func(t *testing.T, dev string) {
			check(t, exec.Command("/usr/sbin/mkfs.ext4", "-q", "-F", filepath.Join(dev, "sdz")).Run())
		}, []string{"sdz"}, nil},
		"a disk that is gone": {"sdz", func(t *testing.T, dev string) {
			check(t, os.Remove(filepath.Join(dev, "sdz")), os.Remove(filepath.Join(linkDir, "ata-sdz")))
		}, nil, nil},
		"a partition that is gone, on a disk that is there": {"sdz1",
			func(t *testing.T, dev string) { check(t, os.Remove(filepath.Join(dev, "sdz1"))) }, nil, nil},
		"a disk that has lost its link": {
			"sdz", func(t *testing.T, dev string) { check(t, os.Remove(filepath.Join(linkDir, "ata-sdz"))) },
			[]string{"sdz"}, nil,
		},
		"another disk with the name of a disk that is gone": {"sdz", func(t *testing.T, dev string) {
			check(t, os.Remove(filepath.Join(linkDir, "ata-sdz")),
				exec.Command("/usr/sbin/mkfs.ext4", "-q", "-F", filepath.Join(dev, "sdz")).Run())
		}, nil, []string{"sdz"}},
		"a disk without links": {"bare", func(*testing.T, string) {}, []string{"bare"}, nil},
		"a disk without links, whose name now belongs to another disk": {"bare", func(t *testing.T, dev string) {
			check(t, exec.Command("/usr/sbin/mkfs.ext4", "-q", "-F", filepath.Join(dev, "other")).Run())
			swap(t, filepath.Join(dev, "bare"), filepath.Join(dev, "other"))
		}, nil, []string{"bare"}},
		"a disk without links that is empty": {"bare", func(t *testing.T, dev string) {
			check(t, os.Truncate(filepath.Join(dev, "bare"), 0), os.Truncate(filepath.Join(dev, "bare"), 16<<20))
		}, nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, dev := hostWithDisks(t)
			check(t,
				h.Filesystems(t.Context(),
					[]cloudconfig.Filesystem{{Device: filepath.Join(dev, c.device), Type: "ext4", Overwrite: true}}))
			c.reboot(t, dev)
			made, unknown, err := Made(t.Context(), h.Notes)
			check(t, err)
			for _, paths := range [][]string{made, unknown} {
				for i := range paths {
					paths[i] = filepath.Base(paths[i])
				}
			}
			if !slices.Equal(made, c.made) || !slices.Equal(unknown, c.unknown) {
				t.Errorf("made %q, unknown %q", made, unknown)
			}
		})
	}
}

// mortal stops recording notes once a file has content, as if the agent had died.
type mortal struct {
	*journal.Journal
	t    *testing.T
	file string
}

func (m mortal) Note(key, value string) error {
	if found, err := probe(m.t.Context(), m.file); err != nil || found.any() {
		return err
	}
	return m.Journal.Note(key, value)
}

// The content of a device without links can be identified even if the agent dies before it has read the content. A
// repeated step that finds content on a device does not claim to have created it.
func TestContentIsNotedBeforeItIsMade(t *testing.T) {
	for _, kind := range []string{"ext4", "swap"} {
		t.Run(kind, func(t *testing.T) {
			h, dev := hostWithDisks(t)
			bare, notes := filepath.Join(dev, "bare"), h.Notes.(*journal.Journal)
			all := []cloudconfig.Filesystem{{Device: bare, Type: kind}}
			h.Notes = mortal{notes, t, bare}
			check(t, h.Filesystems(t.Context(), all))
			h.Notes = notes
			check(t, h.Filesystems(t.Context(), all))
			made, unknown, err := Made(t.Context(), notes)
			if err != nil || !slices.Equal(made, []string{bare}) || len(unknown) > 0 {
				t.Errorf("made %q, unknown %q, %v", made, unknown, err)
			}
			other := filepath.Join(dev, "other")
			check(t, exec.Command("/usr/sbin/mkfs.ext4", "-q", "-F", other).Run())
			swap(t, bare, other)
			check(t, h.Filesystems(t.Context(), []cloudconfig.Filesystem{{Device: bare, Type: "ext4"}}))
			made, unknown, err = Made(t.Context(), notes)
			if err != nil || len(made) > 0 || !slices.Equal(unknown, []string{bare}) {
				t.Errorf("another disk has the name: made %q, unknown %q, %v", made, unknown, err)
			}
		})
	}
}

func TestFilesystemID(t *testing.T) {
	cases := map[string]struct {
		kind    string
		options []string
		want    string // "ID" is a placeholder for the identifier
	}{
		"ext4":                                {"ext4", []string{"-m", "0"}, "-U ID"},
		"swap":                                {"swap", nil, "-U ID"},
		"btrfs":                               {"btrfs", nil, "-U ID"},
		"xfs":                                 {"xfs", []string{"-m", "crc=0"}, "-m uuid=ID"},
		"a program that takes no identifier":  {"vfat", nil, ""},
		"the data sets an identifier":         {"ext4", []string{"-U", "time"}, ""},
		"the data sets an identifier for xfs": {"xfs", []string{"-m", "crc=1,uuid=0a1b2c3d-0000-4000-8000-000000000000"}, ""},
		"the data sets an identifier without a space": {"ext4", []string{"-Urandom"}, ""},
		"the data sets an identifier for a swap area": {"swap", []string{"--uuid", "random"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			id, options := filesystemID(cloudconfig.Filesystem{Type: c.kind, Options: c.options})
			if got := strings.Join(options, " "); got != strings.ReplaceAll(c.want, "ID", id) || (id == "") != (c.want == "") {
				t.Errorf("got %q, %q", id, got)
			}
		})
	}
}

func TestTableID(t *testing.T) {
	for table, want := range map[string]string{
		"mbr": `^[0-9a-f]{8}$`, "gpt": `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
	} {
		if first, second := tableID(table), tableID(table); first == second || !regexp.MustCompile(want).MatchString(first) {
			t.Errorf("%s: %s, %s", table, first, second)
		}
	}
}

// A step repeated after a reboot may have changed two disks under the same name.
func TestADeviceThatWasNotedTwice(t *testing.T) {
	h, dev := hostWithDisks(t)
	all := []cloudconfig.Filesystem{{Device: filepath.Join(dev, "sdz"), Type: "ext4", Overwrite: true}}
	check(t, h.Filesystems(t.Context(), all))
	swap(t, filepath.Join(linkDir, "ata-sdy"), filepath.Join(linkDir, "ata-sdz"))
	swap(t, filepath.Join(dev, "sdy"), filepath.Join(dev, "sdz"))
	check(t, h.Filesystems(t.Context(), all))
	made, unknown, err := Made(t.Context(), h.Notes)
	slices.Sort(made)
	if err != nil || fmt.Sprint(made) != fmt.Sprint([]string{filepath.Join(dev, "sdy"), filepath.Join(dev, "sdz")}) ||
		len(unknown) > 0 {
		t.Errorf("made %q, unknown %q, %v", made, unknown, err)
	}
}

func TestNotesOfOlderAgentsAreBelieved(t *testing.T) {
	h, dev := hostWithDisks(t)
	check(t, h.Notes.Note(KeyDisk, filepath.Join(dev, "sdz")), h.Notes.Note(KeyFilesystem, filepath.Join(dev, "sdz1")),
		h.Notes.Note(KeyFilesystem, filepath.Join(dev, "sdx1")))
	made, unknown, err := Made(t.Context(), h.Notes)
	if err != nil || !slices.Equal(made, []string{filepath.Join(dev, "sdz"), filepath.Join(dev, "sdz1")}) ||
		len(unknown) > 0 {
		t.Errorf("made %q, unknown %q, %v", made, unknown, err)
	}
}
