package baseline

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
)

// TestEmptyDirectories: which changes are reported, in the order of a walk.
func TestEmptyDirectories(t *testing.T) {
	entryOf := func(path string, mode, uid uint32) *entry { return &entry{path: path, mode: mode, uid: uid} }
	dir := func(path string) change { return change{path: path, now: entryOf(path, unix.S_IFDIR|0o755, 0)} }
	file := func(path string) change { return change{path: path, now: entryOf(path, unix.S_IFREG|0o644, 0)} }
	special := func(path string, mode, uid uint32) change { return change{path: path, now: entryOf(path, mode, uid)} }
	const plugins = "/usr/libexec/kubernetes/kubelet-plugins"
	for name, c := range map[string]struct {
		changes []change
		want    string
	}{
		"no changes":              {nil, ""},
		"a directory for modules": {[]change{dir("/usr/lib/modules")}, ""},
		"a directory for modules without merged /usr": {[]change{dir("/lib/modules")}, ""},
		"empty directories in an empty directory": {
			[]change{dir("/usr/libexec/kubernetes"), dir(plugins), dir(plugins + "/volume"),
				dir(plugins + "/volume/exec")}, "",
		},
		"a plug-in in a directory that may be empty": {
			[]change{dir("/usr/libexec/kubernetes"), dir(plugins), dir(plugins + "/volume"), file(plugins + "/volume/x")},
			"/usr/libexec/kubernetes " + plugins + " " + plugins + "/volume " + plugins + "/volume/x",
		},
		"a directory with a plug-in next to an empty one": {
			[]change{dir(plugins + "/a"), dir(plugins + "/b"), file(plugins + "/b/x")}, plugins + "/b " + plugins + "/b/x",
		},
		"a file whose name begins like an empty directory's": {
			[]change{dir(plugins + "/a"), file(plugins + "/ab")}, plugins + "/ab",
		},
		"a link": {
			[]change{dir("/usr/lib/modules"), special("/usr/lib/modules/x", unix.S_IFLNK|0o777, 0)},
			"/usr/lib/modules /usr/lib/modules/x",
		},
		"a directory that everybody may write to": {
			[]change{special("/usr/lib/modules", unix.S_IFDIR|0o777, 0)}, "/usr/lib/modules",
		},
		"a directory of an ordinary user in one that belongs to root": {
			[]change{dir("/usr/lib/modules"), special("/usr/lib/modules/x", unix.S_IFDIR|0o755, 1000)},
			"/usr/lib/modules /usr/lib/modules/x",
		},
		"a directory with setgid": {
			[]change{special("/usr/lib/modules", unix.S_IFDIR|unix.S_ISGID|0o755, 0)}, "/usr/lib/modules",
		},
		"an empty directory elsewhere": {[]change{dir("/etc/systemd/system/x.wants")}, "/etc/systemd/system/x.wants"},
		"a listed name with a suffix":  {[]change{dir("/usr/lib/modules-load.d")}, "/usr/lib/modules-load.d"},
		"a directory that is gone": {
			[]change{{path: "/usr/lib/modules", before: entryOf("/usr/lib/modules", unix.S_IFDIR|0o755, 0)}},
			"/usr/lib/modules",
		},
		"a directory that was a file": {
			[]change{{path: "/usr/lib/modules", before: entryOf("/usr/lib/modules", unix.S_IFREG|0o644, 0),
				now: entryOf("/usr/lib/modules", unix.S_IFDIR|0o755, 0)}},
			"/usr/lib/modules",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range withoutEmpty(c.changes) {
				got = append(got, c.path)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("kept %q, want %q", got, c.want)
			}
		})
	}
	many := slices.Repeat([]change{dir("/usr/lib/modules")}, mostFound)
	if len(withoutEmpty(many)) != mostFound {
		t.Error("a directory was dropped although the changes may end before its contents")
	}
}

// TestADirectoryOfSystemdMayBeNew: on a host, an empty directory of systemd is not reported, but a unit in it is.
func TestADirectoryOfSystemdMayBeNew(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		const dir = "/run/systemd/transient"
		take(t, whole())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if found := compare(t, whole()); len(found) > 0 {
			t.Errorf("an empty directory is reported: %q", found)
		}
		write(t, dir+"/evil.service", "[Service]\nExecStart=/bin/true\n", 0o644)
		if found := compare(t, whole()); !slices.Equal(found, []string{"path " + dir + ", which was not there before"}) {
			t.Errorf("found with a unit: %q", found)
		}
	})
}
